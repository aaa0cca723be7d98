// Package webdavfs serves a file system of golang.org/x/net/webdav, and shows an export as one.
//
//	tree, err := webdavfs.New(webdav.NewMemFS(), adapters.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	self := nfsserver.Self() // all callers act as the user of this process
//	server, err := nfsserver.New(nfsserver.Options{
//		Squash:  nfsserver.Squash{All: true, UID: self.UID, GID: self.GID},
//		Exports: []nfsserver.Export{{Name: "/tree", FS: tree}},
//	})
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package webdavfs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/webdav"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/tree"
)

// maxRewritten is the largest rest of a file, in bytes, which a file without Truncate keeps.
const maxRewritten = 64 << 20

// New returns the FS over a file system. The error comes from its root or from the state directory.
// WebDAV has no modes, owners and settable times: these are kept beside the file system. A file
// without a method Truncate cannot be cut to more than 64 MiB.
func New(fsys webdav.FileSystem, o adapters.Options) (nfsserver.FS, error) {
	b := &backend{fsys: fsys, ctx: context.Background()}
	top, err := b.Stat("")
	if err != nil {
		return nil, err
	}
	b.disk = tree.OnDisk(top)
	return tree.New(b, tree.Kind{}, o)
}

// A backend is a WebDAV file system.
type backend struct {
	fsys webdav.FileSystem
	ctx  context.Context
	disk bool // in a file system of this machine
}

func rooted(path string) string { return "/" + path }

func (b *backend) Stat(path string) (fs.FileInfo, error) { return b.fsys.Stat(b.ctx, rooted(path)) }

func (b *backend) List(path string) ([]string, error) {
	f, err := b.fsys.OpenFile(b.ctx, rooted(path), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	list, err := f.Readdir(-1)
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name()
	}
	return names, errors.Join(err, f.Close())
}

func (b *backend) Open(path string, flag int, perm fs.FileMode) (tree.File, error) {
	f, err := b.fsys.OpenFile(b.ctx, rooted(path), flag, perm)
	if err != nil {
		return nil, err
	}
	return &file{File: f, empty: func() error {
		e, err := b.fsys.OpenFile(b.ctx, rooted(path), os.O_RDWR|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		return e.Close()
	}}, nil
}

func (b *backend) Readlink(string) (string, error) { return "", errors.ErrUnsupported }
func (b *backend) Symlink(string, string) error    { return errors.ErrUnsupported }
func (b *backend) Chmod(string, fs.FileMode) error { return errors.ErrUnsupported }
func (b *backend) Chown(string, int, int) error    { return errors.ErrUnsupported }
func (b *backend) Remove(path string) error        { return b.fsys.RemoveAll(b.ctx, rooted(path)) }
func (b *backend) Rename(from, to string) error {
	return b.fsys.Rename(b.ctx, rooted(from), rooted(to))
}
func (b *backend) Mkdir(p string, m fs.FileMode) error { return b.fsys.Mkdir(b.ctx, rooted(p), m) }

func (b *backend) Chtimes(string, time.Time, time.Time) error { return errors.ErrUnsupported }

func (b *backend) Sync(path string) error {
	if !b.disk {
		return nil
	}
	f, err := b.fsys.OpenFile(b.ctx, rooted(path), os.O_RDONLY, 0)
	if err != nil {
		return tree.Unsyncable(err)
	}
	return tree.SyncAndClose(f)
}

// A file is an open file, which has only a position. empty cuts it to no bytes.
type file struct {
	webdav.File
	empty func() error
}

func (f *file) Alone() bool { return true }
func (f *file) Sync() error { return tree.SyncFile(f.File) }

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	return io.ReadFull(f, p)
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	return f.Write(p)
}

// Truncate uses the file's own method, which an *os.File has, or writes the content again.
func (f *file) Truncate(size int64) error {
	if t, ok := f.File.(interface{ Truncate(int64) error }); ok {
		return t.Truncate(size)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case size == info.Size():
		return nil
	case size > info.Size():
		_, err := f.WriteAt([]byte{0}, size-1)
		return err
	case size > maxRewritten:
		return syscall.EFBIG
	}
	kept := make([]byte, size)
	if _, err := f.ReadAt(kept, 0); err != nil {
		return err
	}
	if err := f.empty(); err != nil || size == 0 {
		return err
	}
	_, err = f.WriteAt(kept, 0)
	return err
}
