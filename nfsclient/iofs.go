// An io/fs view of an FS, for code that takes an fs.FS.

package nfsclient

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// IO returns f as an fs.FS. It also implements fs.ReadDirFS, fs.StatFS, fs.ReadFileFS, fs.SubFS and
// fs.ReadLinkFS. ctx bounds all its calls.
func (f *FS) IO(ctx context.Context) fs.FS { return &ioFS{f, ctx} }

// An ioFS implements the io/fs interfaces on an FS.
type ioFS struct {
	f   *FS
	ctx context.Context
}

var (
	_ fs.ReadDirFS  = (*ioFS)(nil)
	_ fs.StatFS     = (*ioFS)(nil)
	_ fs.ReadFileFS = (*ioFS)(nil)
	_ fs.SubFS      = (*ioFS)(nil)
	_ fs.ReadLinkFS = (*ioFS)(nil)
)

// checked returns an error for paths that io/fs does not allow.
func checked(op, name string) error {
	if !fs.ValidPath(name) {
		return pathError(op, name, fs.ErrInvalid)
	}
	return nil
}

// Open opens a file or directory. A directory lists in the server's order.
func (i *ioFS) Open(name string) (fs.File, error) {
	if err := checked("open", name); err != nil {
		return nil, err
	}
	n, err := i.f.walk(i.ctx, name, true)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	file := i.f.OpenNode(i.ctx, n.FH, name, os.O_RDONLY)
	if n.Attr.Type == nfs3.TypeDir {
		return &ioDir{File: file, l: lister{f: i.f, ctx: i.ctx, dir: n.FH}}, nil
	}
	return file, nil
}

// Stat follows symbolic links.
func (i *ioFS) Stat(name string) (fs.FileInfo, error) {
	if err := checked("stat", name); err != nil {
		return nil, err
	}
	fi, err := i.f.Stat(i.ctx, name)
	return asInfo(name, fi, err)
}

// Lstat describes a symbolic link itself.
func (i *ioFS) Lstat(name string) (fs.FileInfo, error) {
	if err := checked("lstat", name); err != nil {
		return nil, err
	}
	fi, err := i.f.Lstat(i.ctx, name)
	return asInfo(name, fi, err)
}

// asInfo returns fi, with the root named "." as in io/fs.
func asInfo(name string, fi *FileInfo, err error) (fs.FileInfo, error) {
	if err != nil {
		return nil, err
	}
	if name == "." {
		fi.name = "."
	}
	return fi, nil
}

func (i *ioFS) ReadLink(name string) (string, error) {
	if err := checked("readlink", name); err != nil {
		return "", err
	}
	return i.f.ReadLink(i.ctx, name)
}

// ReadDir lists a directory, sorted by name.
func (i *ioFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := checked("readdir", name); err != nil {
		return nil, err
	}
	list, err := i.f.ReadDir(i.ctx, name)
	return asEntries(list), err
}

// asEntries converts a list for io/fs.
func asEntries(list []*DirEntry) []fs.DirEntry {
	out := make([]fs.DirEntry, len(list))
	for i, e := range list {
		out[i] = e
	}
	return out
}

func (i *ioFS) ReadFile(name string) ([]byte, error) {
	if err := checked("readfile", name); err != nil {
		return nil, err
	}
	return i.f.ReadFile(i.ctx, name)
}

// Sub returns the tree below name. Its links may lead out of the tree: see subTree.
func (i *ioFS) Sub(name string) (fs.FS, error) {
	if err := checked("sub", name); err != nil {
		return nil, err
	}
	sub, err := i.f.subTree(i.ctx, name)
	if err != nil {
		return nil, pathError("sub", name, err)
	}
	return sub.IO(i.ctx), nil
}

// subTree is Sub, but links in the tree lead to the same objects as in f, as in an os.DirFS
// subdirectory.
func (f *FS) subTree(ctx context.Context, name string) (*FS, error) {
	w, err := f.walkTo(ctx, name, true)
	if err == nil {
		err = w.needDir()
	}
	if err != nil {
		return nil, err
	}
	sub := f.At(w.top().FH, path.Join(f.path, name))
	for _, n := range w.stack[:len(w.stack)-1] {
		sub.above = append(sub.above, n.FH)
	}
	return sub, nil
}

// ReadFile returns the content of a file.
func (f *FS) ReadFile(ctx context.Context, name string) ([]byte, error) {
	n, err := f.walk(ctx, name, true)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	file := f.OpenNode(ctx, n.FH, name, os.O_RDONLY)
	// Do not trust the server's size: the buffer grows as data arrives.
	buf := make([]byte, 0, min(n.Attr.Size, maxTransfer)+1)
	for {
		k, err := file.ReadAt(buf[len(buf):cap(buf)], int64(len(buf)))
		buf = buf[:len(buf)+k]
		if isEnd(err) {
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
		grown := make([]byte, len(buf), 2*cap(buf))
		copy(grown, buf)
		buf = grown
	}
}

// WriteFile makes or replaces a file with data and commits it to stable storage.
func (f *FS) WriteFile(ctx context.Context, name string, data []byte, perm fs.FileMode) error {
	file, err := f.OpenFile(ctx, name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(data, 0)
	if e := file.Close(); err == nil {
		err = e
	}
	return err
}

// An ioDir is an open directory.
type ioDir struct {
	*File
	l    lister
	left []*DirEntry
}

func (d *ioDir) Stat() (fs.FileInfo, error) {
	fi, err := d.File.Stat()
	if i, ok := fi.(*FileInfo); ok && d.name == "." {
		i.name = "."
	}
	return fi, err
}

// ReadDir returns the next n entries in the server's order, or all if n is not positive.
func (d *ioDir) ReadDir(n int) ([]fs.DirEntry, error) {
	for !d.l.at.EOF && (n <= 0 || len(d.left) < n) {
		page, err := d.l.page()
		if err != nil && n > 0 && len(d.left) > 0 {
			break // return these entries first: the next call gets the error again
		}
		if err != nil {
			part := asEntries(d.left)
			d.left = nil
			return part, pathError("readdir", d.name, err)
		}
		for i := range page {
			d.left = append(d.left, &page[i])
		}
	}
	if n <= 0 {
		n = len(d.left)
	} else if len(d.left) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.left))
	out := d.left[:n:n]
	d.left = d.left[n:]
	return asEntries(out), nil
}
