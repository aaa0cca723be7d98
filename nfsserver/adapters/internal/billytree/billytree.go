// Package billytree serves a file system of go-billy, in either of its versions.
package billytree

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/tree"
)

// A File is a version's open file.
type File interface {
	io.Reader
	io.Writer
	io.ReaderAt
	io.Seeker
	io.Closer
	Truncate(size int64) error
}

// A Filesystem is a version's file system, with files F and directory entries E.
type Filesystem[F File, E interface{ Name() string }] interface {
	OpenFile(name string, flag int, perm fs.FileMode) (F, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	Rename(from, to string) error
	Remove(name string) error
	ReadDir(name string) ([]E, error)
	MkdirAll(name string, perm fs.FileMode) error
	Symlink(target, link string) error
	Readlink(link string) (string, error)
}

// A Version has the differences between the versions of go-billy.
type Version struct {
	ReadOnly, NotSupported, CrossedBoundary error // its errors
	// FollowsLinks: Remove and Rename act on the object that a symbolic link leads to. The FS then
	// makes, removes and renames no links.
	FollowsLinks bool
}

// New returns the FS over a file system.
func New[F File, E interface{ Name() string }](fsys Filesystem[F, E], v Version, o adapters.Options) (nfsserver.FS, error) {
	b := &backend[F, E]{fsys: fsys, v: v}
	top, err := b.Stat("")
	if err != nil {
		return nil, err
	}
	b.disk = tree.OnDisk(top)
	o.Serialize = o.Serialize || !b.disk
	return tree.New(b, tree.Kind{Symlinks: !v.FollowsLinks}, o)
}

// A backend is a file system of go-billy.
type backend[F File, E interface{ Name() string }] struct {
	fsys Filesystem[F, E]
	v    Version
	disk bool // in a file system of this machine
}

// mapped returns an error as nfsserver.FS has it.
func (b *backend[F, E]) mapped(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, b.v.ReadOnly):
		return syscall.EROFS
	case errors.Is(err, b.v.NotSupported):
		return errors.ErrUnsupported
	case errors.Is(err, b.v.CrossedBoundary):
		return syscall.EACCES
	}
	return err
}

// rel returns a path from the root: go-billy's BoundOS takes an absolute one as the machine's.
func rel(path string) string {
	if path == "" {
		return "."
	}
	return path
}

func (b *backend[F, E]) Stat(path string) (fs.FileInfo, error) {
	if path == "" {
		info, err := b.fsys.Stat(rel(path))
		return info, b.mapped(err)
	}
	info, err := b.fsys.Lstat(rel(path))
	return info, b.mapped(err)
}

func (b *backend[F, E]) List(path string) ([]string, error) {
	list, err := b.fsys.ReadDir(rel(path))
	if err != nil {
		return nil, b.mapped(err)
	}
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name()
	}
	return names, nil
}

func (b *backend[F, E]) Open(path string, flag int, perm fs.FileMode) (tree.File, error) {
	f, err := b.fsys.OpenFile(rel(path), flag, perm)
	if err != nil {
		return nil, b.mapped(err)
	}
	w, _ := any(f).(io.WriterAt)
	return &file[F]{f: f, w: w}, nil
}

func (b *backend[F, E]) Readlink(path string) (string, error) {
	target, err := b.fsys.Readlink(rel(path))
	return target, b.mapped(err)
}

func (b *backend[F, E]) Mkdir(path string, perm fs.FileMode) error {
	return b.mapped(b.fsys.MkdirAll(rel(path), perm))
}

func (b *backend[F, E]) Symlink(target, path string) error {
	return b.mapped(b.fsys.Symlink(target, rel(path)))
}

// notLink refuses a symbolic link where the file system would follow it.
func (b *backend[F, E]) notLink(path string) error {
	if !b.v.FollowsLinks {
		return nil
	}
	info, err := b.Stat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return errors.ErrUnsupported
	}
	return nil
}

func (b *backend[F, E]) Remove(path string) error {
	if err := b.notLink(path); err != nil {
		return err
	}
	return b.mapped(b.fsys.Remove(rel(path)))
}

func (b *backend[F, E]) Rename(from, to string) error {
	if err := errors.Join(b.notLink(from), b.notLink(to)); err != nil {
		return err
	}
	return b.mapped(b.fsys.Rename(rel(from), rel(to)))
}

func (b *backend[F, E]) Chmod(path string, mode fs.FileMode) error {
	c, ok := b.fsys.(interface {
		Chmod(string, fs.FileMode) error
	})
	if !ok {
		return errors.ErrUnsupported
	}
	if !b.disk { // a tree in memory takes the type from the mode, too
		info, err := b.Stat(path)
		if err != nil {
			return err
		}
		mode |= info.Mode().Type()
	}
	return b.mapped(c.Chmod(rel(path), mode))
}

func (b *backend[F, E]) Chown(path string, uid, gid int) error {
	c, ok := b.fsys.(interface {
		Chown(string, int, int) error
	})
	if !ok {
		return errors.ErrUnsupported
	}
	return b.mapped(c.Chown(rel(path), uid, gid))
}

func (b *backend[F, E]) Chtimes(path string, atime, mtime time.Time) error {
	c, ok := b.fsys.(interface {
		Chtimes(string, time.Time, time.Time) error
	})
	if !ok {
		return errors.ErrUnsupported
	}
	return b.mapped(c.Chtimes(rel(path), atime, mtime))
}

func (b *backend[F, E]) Sync(path string) error {
	if !b.disk {
		return nil
	}
	f, err := b.fsys.OpenFile(rel(path), os.O_RDONLY, 0)
	if err != nil {
		return tree.Unsyncable(b.mapped(err))
	}
	return tree.SyncAndClose(f)
}

// A file is an open file. w is nil if the version's file writes only at its position.
type file[F File] struct {
	f F
	w io.WriterAt
}

func (x *file[F]) ReadAt(p []byte, off int64) (int, error) { return x.f.ReadAt(p, off) }

func (x *file[F]) WriteAt(p []byte, off int64) (int, error) {
	if x.w != nil {
		return x.w.WriteAt(p, off)
	}
	if _, err := x.f.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	return x.f.Write(p)
}

func (x *file[F]) Truncate(size int64) error { return x.f.Truncate(size) }
func (x *file[F]) Sync() error               { return tree.SyncFile(x.f) }
func (x *file[F]) Close() error              { return x.f.Close() }
func (x *file[F]) Alone() bool               { return x.w == nil }
