// Package clientfs gives an nfsclient.FS the shape that file systems of other libraries share.
package clientfs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// parentMode is the mode of directories that a library makes without asking.
const parentMode = 0o755

// An FS is an export. Its errors are those of package os, so os.IsNotExist knows them.
type FS struct {
	export *nfsclient.FS
	ctx    context.Context // bounds all calls
}

// New returns an export's FS. ctx bounds all calls.
func New(ctx context.Context, export *nfsclient.FS) *FS { return &FS{export: export, ctx: ctx} }

// osError returns an error in the form of package os: *fs.PathError with a syscall.Errno.
func osError(err error) error {
	var refused *nfsclient.StatusError
	if !errors.As(err, &refused) {
		return err
	}
	var at *fs.PathError
	if !errors.As(err, &at) {
		return refused.Errno()
	}
	return &fs.PathError{Op: at.Op, Path: at.Path, Err: refused.Errno()}
}

// Open opens a file, or a directory for reading.
func (f *FS) Open(name string, flag int, perm fs.FileMode) (*File, error) {
	file, err := f.export.OpenFile(f.ctx, name, flag, perm)
	if err != nil {
		return nil, osError(err)
	}
	return &File{File: file, fs: f}, nil
}

// OpenMaking is Open, and makes missing parent directories with os.O_CREATE.
func (f *FS) OpenMaking(name string, flag int, perm fs.FileMode) (*File, error) {
	file, err := f.Open(name, flag, perm)
	if flag&os.O_CREATE == 0 || !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if err := f.MakeParents(name); err != nil {
		return nil, err
	}
	return f.Open(name, flag, perm)
}

// MakeParents makes the missing directories above a name.
func (f *FS) MakeParents(name string) error {
	return f.MkdirAll(path.Dir(path.Clean(name)), parentMode)
}

// Stat follows symbolic links, and Lstat does not.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	info, err := f.export.Stat(f.ctx, name)
	if err != nil {
		return nil, osError(err)
	}
	return info, nil
}

// Lstat describes a name itself.
func (f *FS) Lstat(name string) (fs.FileInfo, error) {
	info, err := f.export.Lstat(f.ctx, name)
	if err != nil {
		return nil, osError(err)
	}
	return info, nil
}

// List returns a directory's entries, sorted by name.
func (f *FS) List(name string) ([]fs.DirEntry, error) {
	list, err := f.export.ReadDir(f.ctx, name)
	entries := make([]fs.DirEntry, len(list))
	for i, e := range list {
		entries[i] = e
	}
	return entries, osError(err)
}

// Infos returns a directory's entries with their attributes, sorted by name.
func (f *FS) Infos(name string) ([]fs.FileInfo, error) {
	list, err := f.List(name)
	if err != nil {
		return nil, err
	}
	return infos(list)
}

// infos leaves out entries that were removed since they were listed.
func infos(list []fs.DirEntry) ([]fs.FileInfo, error) {
	all := make([]fs.FileInfo, 0, len(list))
	for _, e := range list {
		info, err := e.Info()
		switch {
		case err == nil:
			all = append(all, info)
		case !errors.Is(err, fs.ErrNotExist):
			return all, osError(err)
		}
	}
	return all, nil
}

// Mkdir makes one directory.
func (f *FS) Mkdir(name string, perm fs.FileMode) error {
	return osError(f.export.Mkdir(f.ctx, name, perm))
}

// MkdirAll makes a directory and the missing ones above it.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	return osError(f.export.MkdirAll(f.ctx, name, perm))
}

// Remove removes a file or an empty directory.
func (f *FS) Remove(name string) error { return osError(f.export.Remove(f.ctx, name)) }

// RemoveAll removes a name and everything below it.
func (f *FS) RemoveAll(name string) error { return osError(f.export.RemoveAll(f.ctx, name)) }

// Rename moves a name.
func (f *FS) Rename(from, to string) error { return osError(f.export.Rename(f.ctx, from, to)) }

// Symlink makes a symbolic link.
func (f *FS) Symlink(target, link string) error {
	return osError(f.export.Symlink(f.ctx, target, link))
}

// Readlink returns a symbolic link's target.
func (f *FS) Readlink(link string) (string, error) {
	target, err := f.export.ReadLink(f.ctx, link)
	return target, osError(err)
}

// Chmod sets a mode.
func (f *FS) Chmod(name string, mode fs.FileMode) error {
	return osError(f.export.Chmod(f.ctx, name, mode))
}

// Chown sets the owner of an object, through symbolic links.
func (f *FS) Chown(name string, uid, gid int) error {
	return osError(f.export.Chown(f.ctx, name, uid, gid))
}

// Lchown sets the owner of a name itself.
func (f *FS) Lchown(name string, uid, gid int) error {
	return osError(f.export.Lchown(f.ctx, name, uid, gid))
}

// Chtimes sets both times.
func (f *FS) Chtimes(name string, atime, mtime time.Time) error {
	return osError(f.export.Chtimes(f.ctx, name, atime, mtime))
}
