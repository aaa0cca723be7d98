// Package aferofs serves a file system of afero, and shows an export as one.
//
//	tree, err := aferofs.New(afero.NewMemMapFs(), adapters.Options{})
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
package aferofs

import (
	"errors"
	"io/fs"
	"syscall"
	"time"

	"github.com/spf13/afero"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/tree"
)

// New returns the FS over a file system. The error comes from its root or from the state directory.
// Give an OsFs a root by afero.NewBasePathFs, because otherwise it is the whole machine; clients
// then cannot make symbolic links, because BasePathFs changes their targets. Modes, owners and
// times that the file system does not keep are kept beside it.
func New(fsys afero.Fs, o adapters.Options) (nfsserver.FS, error) {
	b := &backend{fsys: fsys}
	top, err := b.Stat("")
	if err != nil {
		return nil, err
	}
	b.disk = tree.OnDisk(top)
	_, links := fsys.(afero.Linker)
	if _, below := fsys.(*afero.BasePathFs); below {
		links = false // its links lead to paths of the machine
	}
	return tree.New(b, tree.Kind{Symlinks: links}, o)
}

// A backend is a file system of afero.
type backend struct {
	fsys afero.Fs
	disk bool // in a file system of this machine
}

// mapped returns an error as nfsserver.FS has it.
func mapped(err error) error {
	switch {
	case errors.Is(err, afero.ErrNoSymlink), errors.Is(err, afero.ErrNoReadlink):
		return errors.ErrUnsupported
	case errors.Is(err, afero.ErrTooLarge):
		return syscall.EFBIG
	}
	return err
}

func rooted(path string) string { return "/" + path }

func (b *backend) Stat(path string) (info fs.FileInfo, err error) {
	l, ok := b.fsys.(afero.Lstater)
	if !ok || path == "" {
		return b.fsys.Stat(rooted(path))
	}
	info, _, err = l.LstatIfPossible(rooted(path))
	return info, err
}

func (b *backend) List(path string) ([]string, error) {
	f, err := b.fsys.Open(rooted(path))
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

func (b *backend) Open(path string, flag int, perm fs.FileMode) (tree.File, error) {
	f, err := b.fsys.OpenFile(rooted(path), flag, perm)
	if err != nil {
		return nil, err
	}
	return &file{File: f, alone: !b.disk}, nil
}

func (b *backend) Readlink(path string) (string, error) {
	l, ok := b.fsys.(afero.LinkReader)
	if !ok {
		return "", errors.ErrUnsupported
	}
	target, err := l.ReadlinkIfPossible(rooted(path))
	return target, mapped(err)
}

func (b *backend) Symlink(target, path string) error {
	l, ok := b.fsys.(afero.Linker)
	if !ok {
		return errors.ErrUnsupported
	}
	return mapped(l.SymlinkIfPossible(target, rooted(path)))
}

func (b *backend) Mkdir(path string, perm fs.FileMode) error { return b.fsys.Mkdir(rooted(path), perm) }
func (b *backend) Remove(path string) error                  { return b.fsys.Remove(rooted(path)) }
func (b *backend) Rename(from, to string) error              { return b.fsys.Rename(rooted(from), rooted(to)) }

func (b *backend) Chmod(path string, mode fs.FileMode) error {
	return b.fsys.Chmod(rooted(path), mode)
}

func (b *backend) Chown(path string, uid, gid int) error {
	return b.fsys.Chown(rooted(path), uid, gid)
}

func (b *backend) Chtimes(path string, atime, mtime time.Time) error {
	return b.fsys.Chtimes(rooted(path), atime, mtime)
}

func (b *backend) Sync(path string) error {
	if !b.disk {
		return nil
	}
	f, err := b.fsys.Open(rooted(path))
	if err != nil {
		return tree.Unsyncable(err)
	}
	return tree.SyncAndClose(f)
}

// A file is an open file. Files in memory move their position when they read at an offset.
type file struct {
	afero.File
	alone bool
}

func (f *file) Alone() bool { return f.alone }

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	return n, mapped(err)
}
