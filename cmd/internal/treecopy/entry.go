// One name: checks an existing target, then copies the source.

package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// isPermissionError reports whether an error is about missing permission.
func isPermissionError(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EINVAL)
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

// copiesContent reports whether the job copies the source's bytes. Otherwise the job makes an
// object of the source's type.
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

// mayOverwrite decides about an existing target, in cp(1)'s order: same file, -u, -n and -i,
// mismatched types, a target of this run.
func (r *Run) mayOverwrite(ctx context.Context, j *job, mark madeKey) (proceed, ok bool) {
	target := *j.old
	if target.Mode.Type() == fs.ModeSymlink && r.copiesContent(j) {
		m, err := j.to.Stat(ctx, j.name)
		switch {
		case err == nil:
			target = m
		case errors.Is(err, fs.ErrNotExist) && !r.opt.RemoveDest:
			return false, r.fail(ctx, "not writing through dangling symlink "+r.quote(j.dstText), nil)
		}
	}
	if r.isSame(ctx, j, &target) {
		return false, r.fail(ctx, r.quote(j.srcText)+" and "+r.quote(j.dstText)+" are the same file", nil)
	}
	if !r.wanted(ctx, j, &target) {
		return false, true
	}
	if target.Mode.IsDir() {
		return false, r.fail(ctx, "cannot overwrite directory "+r.quote(j.dstText)+" with non-directory", nil)
	}
	if j.top && r.made[mark] && j.old.Mode.Type() == fs.ModeSymlink && r.copiesContent(j) {
		return false, r.fail(ctx, "will not copy "+r.quote(j.srcText)+" through just-created symlink "+r.quote(j.dstText), nil)
	}
	if j.top && r.made[mark] {
		return false, r.fail(ctx, "will not overwrite just-created "+r.quote(j.dstText)+" with "+r.quote(j.srcText), nil)
	}
	return true, true
}

// wanted reports whether -u, -n and -i permit replacing an existing target.
func (r *Run) wanted(ctx context.Context, j *job, target *Meta) bool {
	if r.opt.Update && !j.src.Mode.IsDir() && !target.Mtime.Before(j.src.Mtime) {
		return false
	}
	switch r.opt.Overwrite {
	case OverwriteNever:
		return false
	case OverwriteAsk:
		r.askMu.Lock()
		defer r.askMu.Unlock()
		return r.opt.Ask(r.question(ctx, j, target))
	}
	return true
}

// question returns the -i question about a target, or another question without write permission.
func (r *Run) question(ctx context.Context, j *job, target *Meta) string {
	name := r.quote(j.dstText)
	m := *target
	m.Name = j.name
	if !m.Mode.IsRegular() || j.to.Writable(ctx, m) == nil {
		return "overwrite " + name
	}
	mode := fmt.Sprintf("%04o (%s)", sysMode(m.Mode), strings.TrimPrefix(m.Mode.Perm().String(), "-"))
	if r.opt.Force {
		return "replace " + name + ", overriding mode " + mode
	}
	return "unwritable " + name + " (mode " + strings.Replace(mode, " (", ", ", 1) + "; try anyway"
}

// isSame reports whether the target is the source, or the source link's target. A copy of the link
// over its own target would dangle.
func (r *Run) isSame(ctx context.Context, j *job, target *Meta) bool {
	if same(&j.src, j.old) || same(&j.src, target) {
		return true
	}
	if j.src.Mode.Type() != fs.ModeSymlink || j.old.Mode.Type() == fs.ModeSymlink {
		return false
	}
	led, err := j.from.Stat(ctx, j.src.Name)
	return err == nil && same(&led, j.old)
}

// throughLink changes a job for a symbolic link into a job for its target. A tree from a server is
// not written through local links, because the server may have created them with an earlier copy.
func (r *Run) throughLink(ctx context.Context, j *job) (done func(), ok bool) {
	m, err := j.to.Stat(ctx, j.name)
	if err != nil {
		return nil, r.fail(ctx, "cannot create regular file "+r.quote(j.dstText), err)
	}
	if j.src.FH.Len() > 0 && m.FH.Len() == 0 && !j.top {
		return nil, r.fail(ctx, "not writing through symlink "+r.quote(j.dstText), nil)
	}
	if !m.Mode.IsRegular() {
		j.old, j.inPlace = &m, true
		return func() {}, true
	}
	d, base, inPlace, err := j.to.Follow(ctx, j.name)
	if err != nil {
		return nil, r.fail(ctx, "cannot create regular file "+r.quote(j.dstText), err)
	}
	if inPlace {
		j.old, j.inPlace = &m, true
		return func() {}, true
	}
	m.Name, m.followed = base, false
	j.to, j.name, j.old = d, base, &m
	return func() { d.Close() }, true
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
