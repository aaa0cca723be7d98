// Symbolic links, FIFOs, sockets and devices, and files with several names.

package treecopy

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"golang.org/x/sys/unix"
)

// create calls make for the target's name, or for a temporary name that then replaces the existing
// target. An object that replaces another gets its attributes before it is visible under the
// target's name.
func (r *Run) create(ctx context.Context, j *job, what string, make func(ctx context.Context, name string) (Meta, error)) (Meta, bool) {
	late, cancel := r.cleanupContext(ctx)
	defer cancel()
	name := j.name
	var m Meta
	err := fs.ErrExist
	if j.old == nil {
		m, err = make(late, name)
	}
	for try := 0; j.old != nil && errors.Is(err, fs.ErrExist) && try < maxNames; try++ {
		name = tempName(j.name)
		m, err = make(late, name)
	}
	if err != nil {
		return Meta{}, r.fail(ctx, "cannot create "+what+" "+r.quote(j.dstText), err)
	}
	m.Name = name
	ok := true
	if r.opt.Preserve.attrs() {
		set := func(ctx context.Context, a Attr) error { return j.to.SetAttr(ctx, m, a) }
		read := func(ctx context.Context) (nfsclient.ACLs, error) { return j.from.ACLs(ctx, j.src) }
		ok = r.preserve(ctx, j.dstText, &j.src, &m, read, set)
	}
	if name != j.name {
		if err := j.to.RenameTo(ctx, name, j.to, j.name); err != nil {
			r.discard(ctx, j.to, name)
			return Meta{}, r.fail(ctx, "cannot create "+what+" "+r.quote(j.dstText), err)
		}
	}
	m.Name = j.name
	return m, ok
}

func (r *Run) copyLink(ctx context.Context, j *job) (Meta, bool) {
	target, err := j.from.Readlink(ctx, j.src)
	if err != nil {
		return Meta{}, r.fail(ctx, "cannot read symbolic link "+r.quote(j.srcText), err)
	}
	r.Links.Add(1)
	return r.create(ctx, j, "symbolic link", func(ctx context.Context, name string) (Meta, error) { return j.to.Symlink(ctx, target, name) })
}

func (r *Run) copySpecial(ctx context.Context, j *job) (Meta, bool) {
	what := "special file"
	if j.src.Mode.Type() == fs.ModeNamedPipe {
		what = "fifo"
	}
	perm := j.src.Mode.Perm() &^ r.opt.Umask
	if r.opt.Preserve.Mode {
		perm &= 0o700
	}
	r.Specials.Add(1)
	return r.create(ctx, j, what, func(ctx context.Context, name string) (Meta, error) { return j.to.Mknod(ctx, name, perm, j.src) })
}

// A linkTable has the copied files with several names, so that their copies get the same names. An
// entry is removed when all names of its file have been seen.
type linkTable struct {
	mu   sync.Mutex // guards list and each entry's left
	list map[linkKey]*linkEntry
}

// A linkKey identifies a file among all sources. File numbers alone are not unique: a server's
// clone has the same numbers.
type linkKey struct {
	domain any
	key    key
}

// A linkEntry is one file. The fields after done are set when done is closed.
type linkEntry struct {
	left uint32 // remaining names

	done chan struct{}
	dir  Dir
	m    Meta
	text string
	ok   bool
}

// claim returns a file's entry. The first caller must copy the file.
func (t *linkTable) claim(m *Meta) (e *linkEntry, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list == nil {
		t.list = map[linkKey]*linkEntry{}
	}
	k := linkKey{m.domain, m.key()}
	e = t.list[k]
	if first = e == nil; first {
		e = &linkEntry{left: m.Nlink, done: make(chan struct{})}
		t.list[k] = e
	}
	if e.left--; e.left == 0 {
		delete(t.list, k)
	}
	return e, first
}

// linked copies a file with several names. The first caller copies the file; the others wait for
// the copy and link to it.
func (r *Run) linked(ctx context.Context, j *job) bool {
	e, first := r.links.claim(&j.src)
	if first {
		e.m, e.ok = r.make(ctx, j)
		e.dir, e.text = j.to, j.dstText
		close(e.done)
		return e.ok
	}
	<-e.done
	if !e.ok || j.inPlace {
		_, ok := r.make(ctx, j)
		return ok
	}
	err := r.link(ctx, e, j)
	if errors.Is(err, unix.EXDEV) { // the link leads to another file system
		_, ok := r.make(ctx, j)
		return ok
	}
	if err != nil {
		return r.fail(ctx, "cannot create hard link "+r.quote(j.dstText)+" to "+r.quote(e.text), err)
	}
	r.Links.Add(1)
	return true
}

// link gives the copy the job's name as a further name.
func (r *Run) link(ctx context.Context, e *linkEntry, j *job) error {
	if j.old == nil {
		return e.dir.LinkTo(ctx, e.m, j.to, j.name)
	}
	late, cancel := r.cleanupContext(ctx)
	defer cancel()
	err := fs.ErrExist
	var tmp string
	for try := 0; errors.Is(err, fs.ErrExist) && try < maxNames; try++ {
		tmp = tempName(j.name)
		err = e.dir.LinkTo(late, e.m, j.to, tmp)
	}
	if err != nil {
		return err
	}
	err = j.to.RenameTo(ctx, tmp, j.to, j.name)
	r.discard(ctx, j.to, tmp) // renaming a file onto itself leaves both names
	return err
}
