// What a copy takes over from its source: owner, mode, ACLs and times.

package treecopy

import (
	"context"
	"io/fs"
)

// permBits are the mode bits that a copy can carry.
const permBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// preserve sets on a new object what the options want of src, whose ACLs read reads. cur is the
// object as it is, set changes it. It reports whether all went well.
//
// Set-id bits stay only where the object has its source's owner, or group: a copy
// of somebody's setuid program must not become one of the user who copies.
func (r *Run) preserve(ctx context.Context, text string, src, cur *Meta, read aclReader, set func(context.Context, Attr) error) bool {
	ok := true
	uid, gid := cur.UID, cur.GID
	if r.opt.Preserve.Owner && (uid != src.UID || gid != src.GID) {
		err := set(ctx, Attr{SetOwner: true, UID: int(src.UID), GID: int(src.GID)})
		if err == nil {
			uid, gid = src.UID, src.GID
		} else if gid != src.GID && set(ctx, Attr{SetOwner: true, UID: -1, GID: int(src.GID)}) == nil {
			gid = src.GID // an owner may give a file to another of his groups
		}
		if err != nil && (r.opt.Privileged || !refused(err)) {
			ok = r.fail(ctx, "failed to preserve ownership for "+r.quote(text), err)
		}
	}
	var a Attr
	what := "preserving times for "
	if r.opt.Preserve.Mode {
		what = "preserving permissions for "
		a.SetMode, a.Mode = true, src.Mode&permBits
		if uid != src.UID {
			a.Mode &^= fs.ModeSetuid
		}
		if gid != src.GID {
			a.Mode &^= fs.ModeSetgid
		}
		if src.Mode.Type() != fs.ModeSymlink {
			mode, settable, kept := r.preserveACLs(ctx, text, src, read, a.Mode, set)
			if !settable {
				return false
			}
			a.Mode, ok = mode, ok && kept
		}
	}
	if r.opt.Preserve.Times {
		a.Atime, a.Mtime = src.Atime, src.Mtime
	}
	if !a.SetMode && a.Mtime.IsZero() {
		return ok
	}
	if err := set(ctx, a); err != nil {
		return r.fail(ctx, what+r.quote(text), err)
	}
	return ok
}
