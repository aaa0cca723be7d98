// A run: its operands, its destination, the job for each name, and which errors end it.

package treecopy

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"golang.org/x/sys/unix"
)

// A Run does the work of one command. Its counters may be read while it runs.
type Run struct {
	Files, Links, Dirs, Specials atomic.Int64
	Bytes, Total                 atomic.Int64 // bytes copied; bytes found so far

	// set once
	opt     Options
	blocks  sync.Pool     // *[]byte of blockSize
	cleanup time.Duration // cleanupTime; tests set a longer one for busy machines

	// state of Copy or Move; only one of them runs at a time
	cancel    context.CancelCauseFunc
	seen      map[operandKey]bool // sources so far
	made      map[madeKey]bool    // targets of operands
	aboveDst  []Meta              // the destination's directory and its ancestors
	caseBlind bool                // different names in the destination may be the same file

	noACLs   sync.Map // fileSystem: source file systems without ACLs
	failures atomic.Int64
	askMu    sync.Mutex // held while the user is asked; the holder takes no other lock

	// mu guards madeDirs and moved; it is held only for lookups, never during file-system calls
	mu sync.Mutex
	// destination directories made by this run, which must not be copied again
	madeDirs map[key]bool
	// copied sources of a move, with their attributes when they were read
	moved map[key]movedFile

	links linkTable
}

type operandKey struct {
	text string
	key  key
}

type madeKey struct {
	dir  key
	name string
}

// New returns a new run.
func New(opt Options) *Run {
	r := &Run{opt: opt, cleanup: cleanupTime, seen: map[operandKey]bool{}, made: map[madeKey]bool{}, madeDirs: map[key]bool{}}
	r.blocks.New = func() any { b := make([]byte, blockSize); return &b }
	if r.opt.Warn == nil {
		r.opt.Warn = func(string) {}
	}
	return r
}

// fail reports one failure. After the end of the context it reports nothing; Copy and Move return
// the context's error. A server that does not answer ends the run.
func (r *Run) fail(ctx context.Context, what string, err error) bool {
	r.failures.Add(1)
	if ctx.Err() != nil {
		return false
	}
	r.opt.Report(&Error{What: what, Err: err})
	var gone *transport.ConnectError
	if errors.As(err, &gone) {
		r.cancel(err)
	}
	return false
}

// Copy copies sources to dst, or into a directory dst. Failures are reported and do not stop the
// other copies. The returned error is ctx's, or the error of a lost server.
func (r *Run) Copy(ctx context.Context, sources []Operand, dst Operand) error {
	return r.each(ctx, sources, dst, r.copyOperand)
}

// each calls do for every source with its target's directory and name. The name is "." if the
// target is the directory itself.
func (r *Run) each(outer context.Context, sources []Operand, dst Operand,
	do func(ctx context.Context, src Operand, to Dir, name string)) error {
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	r.cancel = cancel
	to, name, into := r.destination(ctx, sources, dst)
	if to == nil {
		return outer.Err()
	}
	defer to.Close()
	if r.opt.Recursive {
		r.aboveDst, r.caseBlind = to.Above(ctx), to.CaseInsensitive(ctx)
	}
	for _, src := range sources {
		if ctx.Err() != nil {
			break
		}
		if src.Err != nil {
			r.fail(ctx, src.Err.Error(), nil)
			continue
		}
		if into {
			if name = src.Name; name == ".." || name == "" {
				name = "."
			}
		}
		do(ctx, src, to, name)
	}
	return outer.Err()
}

// destination opens the directory of the targets; to is nil after a failure. into means that each
// target has its source's name; otherwise its name is name.
func (r *Run) destination(ctx context.Context, sources []Operand, dst Operand) (to Dir, name string, into bool) {
	m, err := dst.Tree.Stat(ctx, dst.Path, true)
	isDir := err == nil && m.Mode.IsDir()
	if !isDir && (len(sources) > 1 || r.opt.TargetDir) {
		if err == nil {
			err = unix.ENOTDIR
		}
		what := "target "
		if r.opt.TargetDir {
			what = "target directory "
		}
		r.fail(ctx, what+r.quote(dst.Text), err)
		return nil, "", false
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.fail(ctx, "cannot stat "+r.quote(dst.Text), err)
		return nil, "", false
	}
	if isDir && (!r.opt.NoTargetDir || badName(lastName(dst.Path))) {
		if to, err = dst.Tree.OpenDir(ctx, dst.Path, dst.Text); err != nil {
			r.fail(ctx, "cannot access "+r.quote(dst.Text), err)
			return nil, "", false
		}
		return to, ".", !r.opt.NoTargetDir
	}
	what := "cannot create regular file " + r.quote(dst.Text)
	if r.opt.move {
		what = "cannot move " + r.quote(sources[0].Text) + " to " + r.quote(dst.Text)
	}
	to, name, err = dst.Tree.Parent(ctx, dst.Path, dst.Text)
	if strings.HasSuffix(dst.Path, "/") && !isDir && !r.allDirs(ctx, sources) {
		if err == nil {
			to.Close()
		}
		err = unix.ENOTDIR
	}
	if err != nil {
		r.fail(ctx, what, err)
		return nil, "", false
	}
	return to, name, false
}

// allDirs reports whether all sources are directories, for which a new name may end in a slash.
func (r *Run) allDirs(ctx context.Context, sources []Operand) bool {
	for _, s := range sources {
		if s.Err != nil {
			continue
		}
		if m, err := s.Tree.Stat(ctx, s.Path, r.opt.Follow != FollowNever); err != nil || !m.Mode.IsDir() {
			return false
		}
	}
	return true
}

// copyOperand copies one source to name in to.
func (r *Run) copyOperand(ctx context.Context, src Operand, to Dir, name string) {
	follow := r.opt.Follow != FollowNever
	m, err := src.Tree.Stat(ctx, src.Path, follow)
	if err != nil {
		r.fail(ctx, "cannot stat "+r.quote(src.Text), err)
		return
	}
	if m.Mode.IsDir() && !r.opt.Recursive {
		r.fail(ctx, "-r not specified; omitting directory "+r.quote(src.Text), nil)
		return
	}
	k := operandKey{src.Text, m.key()}
	if r.seen[k] {
		kind := "file "
		if m.Mode.IsDir() {
			kind = "directory "
		}
		r.opt.Warn("warning: source " + kind + r.quote(src.Text) + " specified more than once")
		return
	}
	r.seen[k] = true
	if m.Mode.IsDir() {
		r.copyTree(ctx, src, m, to, name)
		return
	}
	from, base, err := src.Tree.Parent(ctx, src.Path, src.Text)
	if err != nil {
		r.fail(ctx, "cannot stat "+r.quote(src.Text), err)
		return
	}
	defer from.Close()
	m.Name, m.followed = base, follow
	if m.Mode.IsRegular() {
		r.Total.Add(m.Size)
	}
	j := &job{from: from, src: m, srcText: src.Text, to: to, name: name, dstText: r.dstText(to, name), top: true}
	r.entry(ctx, j)
}

// dstText returns a target's path for messages.
func (r *Run) dstText(to Dir, name string) string { return to.Text(name) }

func (r *Run) verbose(src, dst string) {
	if r.opt.Verbose != nil {
		r.opt.Verbose(r.quote(src) + " -> " + r.quote(dst))
	}
}

// A job is one source, not a directory, and its target's name.
type job struct {
	from    Dir
	src     Meta
	srcText string
	to      Dir
	name    string
	dstText string
	fresh   bool // the target does not exist, because this run made its directory
	top     bool // an operand
	decided bool // old is set and is replaced, whatever its type

	old     *Meta // the existing target; nil: none
	inPlace bool  // old can only be written through the target's name
}

// copiesContent reports whether the job copies the source's bytes. Otherwise it makes an object
// with the source's type.
func (r *Run) copiesContent(j *job) bool {
	t := j.src.Mode.Type()
	return t == 0 || !r.opt.Recursive && t != fs.ModeSymlink
}

// entry runs a job and reports failures. It returns true if the target now exists or was to stay
// unchanged.
func (r *Run) entry(ctx context.Context, j *job) bool {
	if j.name == "." {
		return r.fail(ctx, "cannot overwrite directory "+r.quote(j.dstText)+" with non-directory", nil)
	}
	if !j.fresh && !j.decided {
		old, err := j.to.Lstat(ctx, j.name)
		if err == nil {
			j.old = &old
		} else if !errors.Is(err, fs.ErrNotExist) {
			return r.fail(ctx, "cannot stat "+r.quote(j.dstText), err)
		}
	}
	mark := madeKey{j.to.Self().key(), j.name}
	if j.old != nil && !j.decided {
		proceed, ok := r.mayOverwrite(ctx, j, mark)
		if !proceed {
			return ok
		}
		j.decided = r.opt.RemoveDest
		if j.old.Mode.Type() == fs.ModeSymlink && r.copiesContent(j) && !j.decided {
			done, ok := r.throughLink(ctx, j)
			if !ok {
				return false
			}
			defer done()
		}
	}
	r.verbose(j.srcText, j.dstText)
	ok := false
	if r.opt.Preserve.Links && j.src.Nlink > 1 {
		ok = r.linked(ctx, j)
	} else {
		_, ok = r.make(ctx, j)
	}
	if ok && j.top {
		r.made[mark] = true
	}
	if ok {
		r.recordMoved(j)
	}
	return ok
}

// make copies the source, whatever its type, and returns the target's attributes.
func (r *Run) make(ctx context.Context, j *job) (Meta, bool) {
	switch {
	case r.copiesContent(j):
		return r.copyFile(ctx, j)
	case j.src.Mode.Type() == fs.ModeSymlink:
		return r.copyLink(ctx, j)
	default:
		return r.copySpecial(ctx, j)
	}
}
