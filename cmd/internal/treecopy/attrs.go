// Attributes that a copy takes from its source: owner, mode, ACLs and times.

package treecopy

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// permBits are the mode bits that a copy can have.
const permBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// preserve sets the attributes of src on a new object as the options require. read reads the
// source's ACLs; cur is the object's present state; set changes it. preserve reports whether all
// attributes were kept.
//
// Set-ID bits are kept only if the object has its source's owner or group. Otherwise a copy of
// another user's setuid program would become setuid for the copying user.
func (r *Run) preserve(ctx context.Context, text string, src, cur *Meta, read aclReader, set func(context.Context, Attr) error) bool {
	ok := true
	uid, gid := cur.UID, cur.GID
	if r.opt.Preserve.Owner && (uid != src.UID || gid != src.GID) {
		err := set(ctx, Attr{SetOwner: true, UID: int(src.UID), GID: int(src.GID)})
		if err == nil {
			uid, gid = src.UID, src.GID
		} else if gid != src.GID && set(ctx, Attr{SetOwner: true, UID: -1, GID: int(src.GID)}) == nil {
			gid = src.GID // an owner may give a file to another of the owner's groups
		}
		if err != nil && (r.opt.Privileged || !isPermissionError(err)) {
			ok = r.reportNotKept(ctx, "failed to preserve ownership for "+r.quote(text), err)
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
	err := set(ctx, a)
	if errors.Is(err, errTimeRange) {
		what = "preserving times for "
	}
	if err != nil {
		ok = r.reportNotKept(ctx, what+r.quote(text), err) && ok
	}
	return ok
}

// reportNotKept reports an attribute that the copy lacks. For mv(1) a missing attribute is no
// failure: the move continues even if the new file system, or its server, cannot store an owner, an
// ACL or a time. Otherwise the file would stay at its old name.
func (r *Run) reportNotKept(ctx context.Context, what string, err error) (ok bool) {
	var gone *transport.ConnectError
	if !r.opt.move || ctx.Err() != nil || errors.As(err, &gone) {
		return r.fail(ctx, what, err)
	}
	r.opt.Report(&Error{What: what, Err: err, Warning: true})
	return true
}

// errTimeRange is reported when the nearest possible time replaces a time.
var errTimeRange = errors.New("NFS version 3 has no time before 1970 or after 2106: the nearest one was set")

// timesFit reports whether NFS version 3 can represent a's times.
func (a *Attr) timesFit() bool {
	for _, t := range []time.Time{a.Atime, a.Mtime} {
		if s := t.Unix(); !t.IsZero() && s != int64(nfs3.MakeTime(t).Sec) {
			return false
		}
	}
	return true
}
