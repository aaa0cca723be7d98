// Moving: by a rename if possible. Otherwise the source is removed after a complete, committed
// copy.

package treecopy

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// removeWindow limits the concurrent removals in one directory.
const removeWindow = 32

// A movedFile has a source's attributes at the time of its copy.
type movedFile struct {
	size  int64
	mtime time.Time
}

// Move moves sources to dst, or into a directory dst. No part of a source is removed before all of
// the source is at its target. The returned error is nil or ctx's.
func (r *Run) Move(ctx context.Context, sources []Operand, dst Operand) error {
	r.opt.move, r.opt.Recursive, r.opt.Follow, r.opt.Force = true, true, FollowNever, true
	r.opt.Preserve = Preserve{Mode: true, Owner: true, Times: true, Links: true}
	return r.each(ctx, sources, dst, r.moveOperand)
}

func (r *Run) moveOperand(ctx context.Context, src Operand, to Dir, name string) {
	text := to.Text(name)
	m, err := src.Tree.Stat(ctx, src.Path, false)
	if err != nil {
		r.fail(ctx, "cannot stat "+r.quote(src.Text), err)
		return
	}
	what := "cannot move " + r.quote(src.Text) + " to " + r.quote(text)
	from, base, err := src.Tree.Parent(ctx, src.Path, src.Text)
	if errors.Is(err, unix.EINVAL) || err == nil && name == "." {
		err = unix.EBUSY // a directory in use: "." or the root
	}
	if err != nil {
		r.fail(ctx, what, err)
		return
	}
	defer from.Close()
	if m, err = from.Lstat(ctx, base); err == nil && strings.HasSuffix(src.Path, "/") && !m.Mode.IsDir() {
		err = unix.ENOTDIR // a link to a directory, with a trailing slash
	}
	if err != nil {
		r.fail(ctx, what, err)
		return
	}
	j := &job{from: from, src: m, srcText: src.Text, to: to, name: name, dstText: text, top: true, decided: true}
	if !r.mayReplace(ctx, j) {
		return
	}
	if m.Mode.IsDir() {
		for i := range r.aboveDst {
			if same(&m, &r.aboveDst[i]) {
				r.fail(ctx, "cannot move "+r.quote(src.Text)+" to a subdirectory of itself, "+r.quote(text), nil)
				return
			}
		}
	}
	err = from.RenameTo(ctx, base, to, name)
	switch {
	case err == nil:
		if r.opt.Verbose != nil {
			r.opt.Verbose("renamed " + r.quote(src.Text) + " -> " + r.quote(text))
		}
		r.made[madeKey{to.Self().key(), name}] = true
	case errors.Is(err, unix.EXDEV):
		r.moveAcross(ctx, src, j)
	default:
		r.fail(ctx, what, err)
	}
}

// mayReplace decides about an existing target in mv(1)'s order.
func (r *Run) mayReplace(ctx context.Context, j *job) bool {
	old, err := j.to.Lstat(ctx, j.name)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		return r.fail(ctx, "cannot stat "+r.quote(j.dstText), err)
	}
	j.old = &old
	isDir := j.src.Mode.IsDir()
	if r.isSame(ctx, j, &old) {
		return r.fail(ctx, r.quote(j.srcText)+" and "+r.quote(j.dstText)+" are the same file", nil)
	}
	if !r.wanted(ctx, j, &old) {
		return false
	}
	switch {
	case isDir && !old.Mode.IsDir():
		return r.fail(ctx, "cannot overwrite non-directory "+r.quote(j.dstText)+" with directory "+r.quote(j.srcText), nil)
	case !isDir && old.Mode.IsDir():
		return r.fail(ctx, "cannot overwrite directory "+r.quote(j.dstText)+" with non-directory", nil)
	case !isDir && r.made[madeKey{j.to.Self().key(), j.name}]:
		return r.fail(ctx, "will not overwrite just-created "+r.quote(j.dstText)+" with "+r.quote(j.srcText), nil)
	}
	return true
}

// moveAcross copies to another file system, commits, and removes the source.
func (r *Run) moveAcross(ctx context.Context, src Operand, j *job) {
	if j.old != nil && j.old.Mode.IsDir() {
		if err := j.to.Rmdir(ctx, j.name); err != nil {
			r.fail(ctx, "inter-device move failed: "+r.quote(j.srcText)+" to "+r.quote(j.dstText)+"; unable to remove target", err)
			return
		}
		j.old = nil
	}
	r.moved = map[key]movedFile{}
	before := r.failures.Load()
	if j.src.Mode.IsDir() {
		r.copyTree(ctx, src, j.src, j.to, j.name)
		r.made[madeKey{j.to.Self().key(), j.name}] = true
	} else {
		r.entry(ctx, j)
	}
	if ctx.Err() == nil && r.failures.Load() == before {
		if err := j.to.Commit(); err != nil {
			r.fail(ctx, "error writing "+r.quote(j.dstText), err)
		}
	}
	if ctx.Err() != nil || r.failures.Load() != before {
		return // both the partial target and the source stay
	}
	if j.src.Mode.IsDir() {
		r.removeTree(ctx, j.from, j.src)
	} else {
		r.removeMoved(ctx, j.from, j.src.Name)
	}
}

// recordMoved records a source's attributes at the time of its copy.
func (r *Run) recordMoved(j *job) {
	if r.opt.move {
		r.mu.Lock()
		r.moved[j.src.key()] = movedFile{j.src.Size, j.src.Mtime}
		r.mu.Unlock()
	}
}

// removeMoved removes a file that is unchanged since its copy. A file written or created since the
// copy is not at the target, so the file stays.
func (r *Run) removeMoved(ctx context.Context, d Dir, name string) {
	m, err := d.Lstat(ctx, name)
	if err == nil {
		r.mu.Lock()
		was, ok := r.moved[m.key()]
		r.mu.Unlock()
		if !ok || was.size != m.Size || !was.mtime.Equal(m.Mtime) {
			r.fail(ctx, r.quote(d.Text(name))+" has changed while it was moved, and is kept", nil)
			return
		}
		err = d.Remove(ctx, name)
	}
	if err != nil {
		r.fail(ctx, "cannot remove "+r.quote(d.Text(name)), err)
	} else if r.opt.Verbose != nil {
		r.opt.Verbose("removed " + r.quote(d.Text(name)))
	}
}

// removeTree removes the moved parts of the directory m in d. It completes the listing before the
// first removal, because removals change the cookies of some servers.
func (r *Run) removeTree(ctx context.Context, d Dir, m Meta) {
	text := d.Text(m.Name)
	sub, err := d.Sub(ctx, m)
	if err != nil {
		r.fail(ctx, "cannot remove "+r.quote(text), err)
		return
	}
	defer sub.Close()
	var dirs, files []Meta
	for e, err := range sub.Entries(ctx) {
		if err != nil || badName(e.Name) {
			r.fail(ctx, "error reading directory "+r.quote(text), err)
			return
		}
		if e.Mode.IsDir() {
			dirs = append(dirs, e)
		} else {
			files = append(files, e)
		}
	}
	var g errgroup.Group
	g.SetLimit(removeWindow)
	for i := range files {
		g.Go(func() error { r.removeMoved(ctx, sub, files[i].Name); return nil })
	}
	_ = g.Wait()
	for i := range dirs {
		r.removeTree(ctx, sub, dirs[i])
	}
	if err := d.Rmdir(ctx, m.Name); err != nil {
		r.fail(ctx, "cannot remove "+r.quote(text), err)
	} else if r.opt.Verbose != nil {
		r.opt.Verbose("removed directory " + r.quote(text))
	}
}
