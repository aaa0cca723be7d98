// Operations on names in an FS.

package nfsclient

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Mkdir makes a directory with mode perm; the caller applies a umask. An existing name fails with
// fs.ErrExist, including ".", ".." and the root.
func (f *FS) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	p, err := f.newName(ctx, name, true)
	if err == nil {
		_, err = f.c.Mkdir(ctx, p.dir, p.base, nfs3.Sattr{SetMode: true, Mode: WireMode(perm)})
	}
	return pathError("mkdir", name, err)
}

// MkdirAll makes a directory and its missing parents, in path order: "a/../b" makes a and b.
func (f *FS) MkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	if strings.IndexByte(name, 0) >= 0 {
		return pathError("mkdir", name, fs.ErrInvalid)
	}
	w := f.walker(ctx)
	for comp := range strings.SplitSeq(name, "/") {
		if err := w.enterOrMake(comp, perm); err != nil {
			return pathError("mkdir", name, err)
		}
	}
	return nil
}

// enterOrMake enters the directory comp and makes it if it is missing.
func (w *walker) enterOrMake(comp string, perm fs.FileMode) error {
	before := slices.Clone(w.stack)
	err := w.enter(comp, true, true)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Following a dangling link has moved the walk, so go back: Mkdir does not follow the link and
	// returns EXIST.
	w.stack = before
	n, err := w.f.c.Mkdir(w.ctx, w.top().FH, comp, nfs3.Sattr{SetMode: true, Mode: WireMode(perm)})
	if errors.Is(err, fs.ErrExist) { // another client may have made comp meanwhile
		if e := w.enter(comp, false, true); e == nil {
			return nil
		}
	}
	if err == nil {
		w.stack = append(w.stack, n)
	}
	return err
}

// Remove removes a file, a link or an empty directory.
func (f *FS) Remove(ctx context.Context, name string) error {
	p, err := f.oldName(ctx, name)
	if err == nil && p.slash {
		err = f.c.Rmdir(ctx, p.dir, p.base)
	} else if err == nil {
		err = f.remove(ctx, p.dir, p.base)
	}
	return pathError("remove", name, err)
}

// oldName returns the place of a name to remove. A path without a name returns the error of
// rmdir(2).
func (f *FS) oldName(ctx context.Context, name string) (parentName, error) {
	p, err := f.resolveParent(ctx, name)
	if err == nil {
		switch p.base {
		case "":
			err = syscall.EBUSY
		case ".":
			err = syscall.EINVAL
		case "..":
			err = syscall.ENOTEMPTY
		}
	}
	return p, err
}

// remove tries REMOVE, then RMDIR if the name proves to be a directory. Servers refuse REMOVE of a
// directory with ISDIR or, like POSIX unlink, with PERM. But PERM may also be the answer for a
// file.
func (f *FS) remove(ctx context.Context, dir nfs3.FH, base string) error {
	err := f.c.Remove(ctx, dir, base)
	switch {
	case errors.Is(err, nfs3.ErrIsDir):
	case errors.Is(err, nfs3.ErrPerm), errors.Is(err, nfs3.ErrInval):
		if n, e := f.lookup(ctx, dir, base); e != nil || n.Attr.Type != nfs3.TypeDir {
			return err
		}
	default:
		return err
	}
	return f.c.Rmdir(ctx, dir, base)
}

// Unlink removes a name; a directory fails with syscall.EISDIR.
func (f *FS) Unlink(ctx context.Context, name string) error {
	p, err := f.resolveParent(ctx, name)
	switch {
	case err != nil:
	case !p.isName():
		err = syscall.EISDIR
	case p.slash:
		err = f.refuseSlash(ctx, p)
	default:
		err = f.unlink(ctx, p.dir, p.base)
	}
	return pathError("unlink", name, err)
}

// unlink is REMOVE with Linux's error for a directory.
func (f *FS) unlink(ctx context.Context, dir nfs3.FH, base string) error {
	err := f.c.Remove(ctx, dir, base)
	if errors.Is(err, nfs3.ErrPerm) || errors.Is(err, nfs3.ErrInval) {
		if n, e := f.lookup(ctx, dir, base); e == nil && n.Attr.Type == nfs3.TypeDir {
			return syscall.EISDIR
		}
	}
	return err
}

// refuseSlash returns the error for a trailing slash in an operation on non-directories.
func (f *FS) refuseSlash(ctx context.Context, p parentName) error {
	n, err := f.lookup(ctx, p.dir, p.base)
	switch {
	case err != nil:
		return err
	case n.Attr.Type == nfs3.TypeDir:
		return syscall.EISDIR
	}
	return syscall.ENOTDIR
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(ctx context.Context, name string) error {
	p, err := f.oldName(ctx, name)
	if err == nil {
		err = f.c.Rmdir(ctx, p.dir, p.base)
	}
	return pathError("rmdir", name, err)
}

// Rename renames oldname to newname and replaces newname. It does not follow symbolic links. Only
// directories accept a slash after either name.
func (f *FS) Rename(ctx context.Context, oldname, newname string) error {
	from, err := f.resolveParent(ctx, oldname)
	var to parentName
	if err == nil {
		to, err = f.resolveParent(ctx, newname)
	}
	if err == nil {
		err = f.rename(ctx, from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err}
	}
	return nil
}

// rename sends one RENAME. It checks trailing slashes first, because RENAME does not carry them.
func (f *FS) rename(ctx context.Context, from, to parentName) error {
	if !from.isName() || !to.isName() {
		return syscall.EBUSY
	}
	if from.slash || to.slash {
		n, err := f.lookup(ctx, from.dir, from.base)
		if err == nil && n.Attr.Type != nfs3.TypeDir {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return err
		}
	}
	return f.c.Rename(ctx, from.dir, from.base, to.dir, to.base)
}

// Link gives oldname the additional name newname. It does not follow a symbolic link.
func (f *FS) Link(ctx context.Context, oldname, newname string) error {
	n, err := f.walk(ctx, oldname, false)
	var p parentName
	if err == nil {
		p, err = f.newName(ctx, newname, false)
	}
	switch {
	case err != nil:
	case n.Attr.Type == nfs3.TypeDir: // servers differ here; use Linux's errors
		if _, err = f.lookup(ctx, p.dir, p.base); err == nil {
			err = syscall.EEXIST
		} else if errors.Is(err, fs.ErrNotExist) {
			err = syscall.EPERM
		}
	default:
		err = f.c.Link(ctx, n.FH, p.dir, p.base)
	}
	if err != nil {
		return &os.LinkError{Op: "link", Old: oldname, New: newname, Err: err}
	}
	return nil
}

// Symlink makes a symbolic link with the content target.
func (f *FS) Symlink(ctx context.Context, target, name string) error {
	var p parentName
	err := checkTarget(target)
	if err == nil {
		p, err = f.newName(ctx, name, false)
	}
	if err == nil {
		_, err = f.c.Symlink(ctx, p.dir, p.base, target, nfs3.Sattr{SetMode: true, Mode: 0o777})
	}
	if err != nil {
		return &os.LinkError{Op: "symlink", Old: target, New: name, Err: err}
	}
	return nil
}

// checkTarget returns an error for invalid symbolic link contents.
func checkTarget(target string) error {
	switch {
	case target == "":
		return syscall.ENOENT
	case len(target) >= nfs3.MaxPath: // PATH_MAX counts the zero byte
		return syscall.ENAMETOOLONG
	case strings.IndexByte(target, 0) >= 0:
		return fs.ErrInvalid
	}
	return nil
}

// Mknod makes a device, socket or FIFO, by the type in mode. major and minor matter only for
// devices.
func (f *FS) Mknod(ctx context.Context, name string, mode fs.FileMode, major, minor uint32) error {
	types := map[fs.FileMode]nfs3.FileType{
		fs.ModeNamedPipe: nfs3.TypeFIFO, fs.ModeSocket: nfs3.TypeSock,
		fs.ModeDevice: nfs3.TypeBlk, fs.ModeDevice | fs.ModeCharDevice: nfs3.TypeChr,
	}
	t, ok := types[mode.Type()]
	if !ok {
		return pathError("mknod", name, fs.ErrInvalid)
	}
	p, err := f.newName(ctx, name, false)
	if err == nil {
		attr := nfs3.Sattr{SetMode: true, Mode: WireMode(mode)}
		_, err = f.c.Mknod(ctx, p.dir, p.base, t, attr, nfs3.Specdata{Major: major, Minor: minor})
	}
	return pathError("mknod", name, err)
}
