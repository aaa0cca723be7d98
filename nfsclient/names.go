// The operations on names of an FS.

package nfsclient

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Mkdir makes a directory.
func (f *FS) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	dir, base, err := f.parent(ctx, name)
	if err == nil {
		_, err = f.c.Mkdir(ctx, dir, base, nfs3.Sattr{SetMode: true, Mode: WireMode(perm)})
	}
	return pathError("mkdir", name, err)
}

// MkdirAll makes a directory and the parents that are missing.
func (f *FS) MkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	if n, err := f.walk(ctx, name, true); err == nil {
		if n.Attr.Type != nfs3.TypeDir {
			return pathError("mkdir", name, syscall.ENOTDIR)
		}
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return pathError("mkdir", name, err)
	}
	clean := strings.Trim(path.Clean("/"+name), "/")
	if up := path.Dir(clean); up != "." {
		if err := f.MkdirAll(ctx, up, perm); err != nil {
			return err
		}
	}
	err := f.Mkdir(ctx, clean, perm)
	if errors.Is(err, fs.ErrExist) { // someone else was quicker
		if n, e := f.walk(ctx, clean, true); e == nil && n.Attr.Type == nfs3.TypeDir {
			return nil
		}
	}
	return err
}

// Remove removes a file, a link or an empty directory.
func (f *FS) Remove(ctx context.Context, name string) error {
	dir, base, err := f.parent(ctx, name)
	if err == nil {
		err = f.remove(ctx, dir, base)
	}
	return pathError("remove", name, err)
}

// remove tries REMOVE, then RMDIR: servers refuse a directory with ISDIR or, as
// POSIX has it for unlink, with PERM.
func (f *FS) remove(ctx context.Context, dir nfs3.FH, base string) error {
	err := f.c.Remove(ctx, dir, base)
	if !errors.Is(err, nfs3.ErrIsDir) && !errors.Is(err, nfs3.ErrPerm) && !errors.Is(err, nfs3.ErrInval) {
		return err
	}
	if e := f.c.Rmdir(ctx, dir, base); !errors.Is(e, nfs3.ErrNotDir) {
		return e
	}
	return err
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(ctx context.Context, name string) error {
	dir, base, err := f.parent(ctx, name)
	if err == nil {
		err = f.c.Rmdir(ctx, dir, base)
	}
	return pathError("rmdir", name, err)
}

// Rename gives oldname the name newname; what had that name is replaced.
func (f *FS) Rename(ctx context.Context, oldname, newname string) error {
	from, fromBase, err := f.parent(ctx, oldname)
	var to nfs3.FH
	var toBase string
	if err == nil {
		to, toBase, err = f.parent(ctx, newname)
	}
	if err == nil {
		err = f.c.Rename(ctx, from, fromBase, to, toBase)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err}
	}
	return nil
}

// Link gives oldname the further name newname. A symbolic link is not followed.
func (f *FS) Link(ctx context.Context, oldname, newname string) error {
	n, err := f.walk(ctx, oldname, false)
	if err == nil {
		var dir nfs3.FH
		var base string
		if dir, base, err = f.parent(ctx, newname); err == nil {
			err = f.c.Link(ctx, n.FH, dir, base)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "link", Old: oldname, New: newname, Err: err}
	}
	return nil
}

// Symlink makes a symbolic link with the content target.
func (f *FS) Symlink(ctx context.Context, target, name string) error {
	dir, base, err := f.parent(ctx, name)
	if err == nil && len(target) > nfs3.MaxPath {
		err = syscall.ENAMETOOLONG
	}
	if err == nil {
		_, err = f.c.Symlink(ctx, dir, base, target, nfs3.Sattr{SetMode: true, Mode: 0o777})
	}
	if err != nil {
		return &os.LinkError{Op: "symlink", Old: target, New: name, Err: err}
	}
	return nil
}

// Mknod makes a device, socket or FIFO; its type is in mode, major and minor count for devices.
func (f *FS) Mknod(ctx context.Context, name string, mode fs.FileMode, major, minor uint32) error {
	types := map[fs.FileMode]nfs3.FileType{
		fs.ModeNamedPipe: nfs3.TypeFIFO, fs.ModeSocket: nfs3.TypeSock,
		fs.ModeDevice: nfs3.TypeBlk, fs.ModeDevice | fs.ModeCharDevice: nfs3.TypeChr,
	}
	t, ok := types[mode.Type()]
	if !ok {
		return pathError("mknod", name, fs.ErrInvalid)
	}
	dir, base, err := f.parent(ctx, name)
	if err == nil {
		attr := nfs3.Sattr{SetMode: true, Mode: WireMode(mode)}
		_, err = f.c.Mknod(ctx, dir, base, t, attr, nfs3.Specdata{Major: major, Minor: minor})
	}
	return pathError("mknod", name, err)
}
