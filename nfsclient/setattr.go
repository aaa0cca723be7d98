// Setting attributes by path.

package nfsclient

import (
	"context"
	"io/fs"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// SetAttr sets attributes of the object at name. If follow is false a symbolic link itself changes.
func (f *FS) SetAttr(ctx context.Context, name string, attr nfs3.Sattr, follow bool) error {
	return f.setattr(ctx, "setattr", name, attr, follow)
}

func (f *FS) setattr(ctx context.Context, op, name string, attr nfs3.Sattr, follow bool) error {
	n, err := f.walk(ctx, name, follow)
	if err == nil {
		err = f.c.Setattr(ctx, n.FH, attr)
	}
	return pathError(op, name, err)
}

// Chmod sets permission bits, setuid, setgid and sticky.
func (f *FS) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	return f.setattr(ctx, "chmod", name, nfs3.Sattr{SetMode: true, Mode: WireMode(mode)}, true)
}

// Chown sets owner and group; -1 leaves the owner or group unchanged.
func (f *FS) Chown(ctx context.Context, name string, uid, gid int) error {
	return f.setattr(ctx, "chown", name, owners(uid, gid), true)
}

// Lchown is Chown for a symbolic link itself.
func (f *FS) Lchown(ctx context.Context, name string, uid, gid int) error {
	return f.setattr(ctx, "lchown", name, owners(uid, gid), false)
}

// owners returns attributes that set owner and group, except -1.
func owners(uid, gid int) nfs3.Sattr {
	return nfs3.Sattr{SetUID: uid != -1, UID: uint32(uid), SetGID: gid != -1, GID: uint32(gid)}
}

// Chtimes sets access and modification time, in nanoseconds; a zero time leaves one unchanged.
func (f *FS) Chtimes(ctx context.Context, name string, atime, mtime time.Time) error {
	return f.setattr(ctx, "chtimes", name, Times(nfs3.Sattr{}, atime, mtime), true)
}

// Times adds access and modification time to attributes; a zero time is omitted.
func Times(a nfs3.Sattr, atime, mtime time.Time) nfs3.Sattr {
	if !atime.IsZero() {
		a.AtimeHow, a.Atime = nfs3.SetToClientTime, nfs3.MakeTime(atime)
	}
	if !mtime.IsZero() {
		a.MtimeHow, a.Mtime = nfs3.SetToClientTime, nfs3.MakeTime(mtime)
	}
	return a
}

// Truncate sets a file's length in bytes.
func (f *FS) Truncate(ctx context.Context, name string, size int64) error {
	if size < 0 {
		return pathError("truncate", name, fs.ErrInvalid)
	}
	return f.setattr(ctx, "truncate", name, nfs3.Sattr{SetSize: true, Size: uint64(size)}, true)
}
