// An existing target: whether it may be overwritten, and under which name it is written.

package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// mayOverwrite decides about an existing target in cp(1)'s order: same file, -u, -n and -i,
// mismatched types, a target made by this run.
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

// question returns the -i question about a target, or a different one if the target is not
// writable.
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
