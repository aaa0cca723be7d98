// Package iofs serves an io/fs file tree, read-only: an embed.FS, an archive/zip.Reader, an
// os.DirFS or any other fs.FS.
//
//	//go:embed testdata
//	var files embed.FS
//	tree, err := iofs.New(files, adapters.Options{Name: "/files"})
//	if err != nil {
//		log.Fatal(err)
//	}
//	server, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/files", FS: tree, ReadOnly: true}}})
//
// Handles depend on paths alone: they stay valid when the program restarts, and with a new version
// that has the same files. For the other way, from an export to an fs.FS, see nfsclient.FS.IO.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package iofs

import (
	"io"
	"io/fs"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/tree"
)

// New returns the FS over an io/fs tree. The error comes from the tree's root. Names that io/fs
// does not allow, without valid UTF-8, do not exist.
//
// A file that can neither read at an offset nor seek, as in a compressed archive, is read from its
// beginning; up to 4 MiB behind the position stay in memory, for reads that arrive out of order.
func New(fsys fs.FS, o adapters.Options) (nfsserver.FS, error) {
	return tree.New(backend{fsys: fsys}, tree.Kind{Fixed: true, Symlinks: true}, o)
}

// A backend is an io/fs tree.
type backend struct {
	tree.ReadOnly
	fsys fs.FS
}

// valid returns a path as io/fs has it.
func valid(path string) (string, error) {
	if path == "" {
		return ".", nil
	}
	if !fs.ValidPath(path) {
		return "", syscall.ENOENT
	}
	return path, nil
}

func (b backend) Stat(path string) (fs.FileInfo, error) {
	path, err := valid(path)
	if err != nil {
		return nil, err
	}
	if path == "." {
		return fs.Stat(b.fsys, path)
	}
	return fs.Lstat(b.fsys, path)
}

func (b backend) List(path string) ([]string, error) {
	path, err := valid(path)
	if err != nil {
		return nil, err
	}
	list, err := fs.ReadDir(b.fsys, path)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name()
	}
	return names, nil
}

func (b backend) Readlink(path string) (string, error) { return fs.ReadLink(b.fsys, path) }

func (b backend) Open(path string, _ int, _ fs.FileMode) (tree.File, error) {
	path, err := valid(path)
	if err != nil {
		return nil, err
	}
	f, err := b.fsys.Open(path)
	if err != nil {
		return nil, err
	}
	switch r := f.(type) {
	case io.ReaderAt:
		return readerAt{ReaderAt: r, Closer: f}, nil
	case io.Seeker:
		return seeker{f: f, s: r}, nil
	}
	return &stream{f: f, open: func() (fs.File, error) { return b.fsys.Open(path) }}, nil
}

// A readerAt is a file that reads at any offset.
type readerAt struct {
	tree.ReadOnlyFile
	io.ReaderAt
	io.Closer
}

func (readerAt) Alone() bool { return false }

// A seeker is a file with a position.
type seeker struct {
	tree.ReadOnlyFile
	f fs.File
	s io.Seeker
}

func (s seeker) ReadAt(p []byte, off int64) (int, error) {
	if _, err := s.s.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	return io.ReadFull(s.f, p)
}

func (s seeker) Close() error { return s.f.Close() }
func (seeker) Alone() bool    { return true }
