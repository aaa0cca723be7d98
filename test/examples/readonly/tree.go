// A custom read-only file tree: any fs.FS, such as an archive or embedded files, as an
// nfsserver.FS.

package main

import (
	"encoding/binary"
	"io/fs"
	"path"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// A node is one file or directory. Its content is in memory, so READ neither opens nor seeks.
type node struct {
	name     string
	number   uint64 // index in tree.nodes and, one more, the fileid
	parent   *node
	children []*node // of a directory, sorted by name
	data     []byte
	attr     nfsserver.Attr
}

// A tree is immutable, so its methods need no lock.
type tree struct{ nodes []*node }

// newTree reads all of fsys into memory. Symbolic links and devices are left out.
func newTree(fsys fs.FS) (*tree, error) {
	t := &tree{}
	dirs := map[string]*node{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		n := &node{name: path.Base(name), number: uint64(len(t.nodes)), parent: dirs[path.Dir(name)]}
		modified := nfsserver.Time{Sec: info.ModTime().Unix()}
		n.attr = nfsserver.Attr{
			Type: nfsserver.TypeReg, Mode: 0o444, Nlink: 1, Fsid: 1, Fileid: n.number + 1,
			Atime: modified, Mtime: modified, Ctime: modified,
		}
		if d.IsDir() {
			n.attr.Type, n.attr.Mode, n.attr.Nlink = nfsserver.TypeDir, 0o555, 2
			dirs[name] = n
		} else if n.data, err = fs.ReadFile(fsys, name); err != nil {
			return err
		}
		n.attr.Size, n.attr.Used = uint64(len(n.data)), uint64(len(n.data))
		if name == "." {
			n.parent = n // ".." of the root is the root
		} else {
			n.parent.children = append(n.parent.children, n)
		}
		t.nodes = append(t.nodes, n)
		return nil
	})
	return t, err
}

// ref identifies a node for clients. It is part of their file handles, so it must be stable across
// restarts.
func (n *node) ref() nfsserver.Ref {
	r, _ := nfsserver.MakeRef(binary.BigEndian.AppendUint64(nil, n.number))
	return r
}

// find returns the node for a Ref. Handles of another tree are stale.
func (t *tree) find(r nfsserver.Ref) (*node, error) {
	if r.Len() != 8 {
		return nil, nfsserver.ErrStale
	}
	number := binary.BigEndian.Uint64(r.Bytes())
	if number >= uint64(len(t.nodes)) {
		return nil, nfsserver.ErrStale
	}
	return t.nodes[number], nil
}

func (t *tree) Root() nfsserver.Ref  { return t.nodes[0].ref() }
func (t *tree) Info() nfsserver.Info { return nfsserver.Info{} } // the usual limits
func (t *tree) Close() error         { return nil }

func (t *tree) Getattr(r nfsserver.Ref) (nfsserver.Attr, error) {
	n, err := t.find(r)
	if err != nil {
		return nfsserver.Attr{}, err
	}
	return n.attr, nil
}

// Access grants the permissions of the mode: all users may read, none may write.
func (t *tree) Access(_ nfsserver.Cred, r nfsserver.Ref, want uint32) (uint32, error) {
	n, err := t.find(r)
	if err != nil {
		return 0, err
	}
	return want & (n.attr.Mode & 7), nil
}

func (t *tree) ReadAt(_ nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	n, err := t.find(r)
	if err != nil {
		return 0, err
	}
	if n.attr.Type == nfsserver.TypeDir {
		return 0, syscall.EISDIR
	}
	return copy(p, n.data[min(off, uint64(len(n.data))):]), nil
}

func (t *tree) Lookup(_ nfsserver.Cred, dir nfsserver.Ref, name string) (nfsserver.Ref, nfsserver.Attr, error) {
	d, err := t.findDir(dir)
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	switch name {
	case ".":
		return d.ref(), d.attr, nil
	case "..":
		return d.parent.ref(), d.parent.attr, nil
	}
	for _, n := range d.children {
		if n.name == name {
			return n.ref(), n.attr, nil
		}
	}
	return nfsserver.Ref{}, nfsserver.Attr{}, syscall.ENOENT
}

func (t *tree) findDir(r nfsserver.Ref) (*node, error) {
	n, err := t.find(r)
	if err == nil && n.attr.Type != nfsserver.TypeDir {
		err = syscall.ENOTDIR
	}
	return n, err
}

// ReadDir assigns entry i, counted from 1, the cookie i: a client continues after its last entry.
func (t *tree) ReadDir(_ nfsserver.Cred, dir nfsserver.Ref, cookie uint64, plus bool, emit func(*nfsserver.Dirent) bool) (bool, error) {
	d, err := t.findDir(dir)
	if err != nil {
		return false, err
	}
	for i := cookie; i < uint64(len(d.children))+2; i++ {
		name, n := ".", d
		switch {
		case i == 1:
			name, n = "..", d.parent
		case i > 1:
			n = d.children[i-2]
			name = n.name
		}
		entry := nfsserver.Dirent{Name: []byte(name), Fileid: n.attr.Fileid, Cookie: i + 1}
		if plus {
			entry.HasAttr, entry.Ref, entry.Attr = true, n.ref(), n.attr
		}
		if !emit(&entry) {
			return false, nil // the reply is full
		}
	}
	return true, nil
}

func (t *tree) Statfs(nfsserver.Ref) (nfsserver.Statfs, error) {
	return nfsserver.Statfs{TotalFiles: uint64(len(t.nodes))}, nil // and no room
}

// Readlink has no links to read, and Sync has no changes to keep.
func (t *tree) Readlink(nfsserver.Cred, nfsserver.Ref) (string, error) { return "", syscall.EINVAL }
func (t *tree) Sync(nfsserver.Ref, bool) error                         { return nil }
