// Lookup, and how a name becomes a node.

package osfs

import (
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// Lookup opens a name of a directory and keeps it open: its attributes and
// content are asked for next.
func (f *FS) Lookup(c nfsserver.Cred, dir nfsserver.Ref, name string) (nfsserver.Ref, nfsserver.Attr, error) {
	d, err := f.acquireDir(&dir)
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	defer f.cache.release(d)
	if err := f.allowed(d, &c, nfsserver.MayExec); err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	switch {
	case name == "." || name == ".." && dir == f.root:
		a, err := f.getattr(d)
		return dir, a, err
	case name == "..":
		return f.parent(d)
	}
	fd, err := f.tree.openPath(d.fd(), name)
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	return f.adopt(d, name, fd)
}

// adopt makes a node of an O_PATH descriptor, which it takes over, of name in d.
func (f *FS) adopt(d *node, name string, fd int) (nfsserver.Ref, nfsserver.Attr, error) {
	var x file
	if err := f.describe(fd, &x); err != nil {
		unix.Close(fd)
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	f.note(&x, d, name)
	n := newNode(&x)
	n.path.Store(int32(fd))
	n.proven.Store(d.proven.Load()) // it lies where d does
	f.cache.release(f.cache.put(n))
	return x.ref, x.attr(), nil
}

// parent is the directory above d, which is not the root. A directory that
// somebody has moved out of the export has none that we may show.
func (f *FS) parent(d *node) (nfsserver.Ref, nfsserver.Attr, error) {
	fd, err := f.tree.openPath(d.fd(), "..")
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	defer unix.Close(fd)
	var x file
	err = f.describe(fd, &x)
	switch {
	case err != nil:
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	case x.ref != f.root && !f.below(fd, &x.st):
		return nfsserver.Ref{}, nfsserver.Attr{}, nfsserver.ErrStale
	}
	return x.ref, x.attr(), nil
}

// below reports whether the directory fd, with attributes st, is the root or lies under it.
func (f *FS) below(fd int, st *unix.Stat_t) bool {
	const maxDepth = 4096
	at := *st
	cur := -1
	defer func() {
		if cur >= 0 {
			unix.Close(cur)
		}
	}()
	for range maxDepth {
		if at.Dev == f.top.dev && at.Ino == f.top.ino {
			return true
		}
		was := at
		up, err := f.tree.openPath(fd, "..")
		if cur >= 0 {
			unix.Close(cur)
		}
		cur, fd = up, up
		if err != nil || fstat(cur, &at) != nil || at.Dev == was.Dev && at.Ino == was.Ino {
			return false
		}
	}
	return false
}

// Readlink returns the target of a symbolic link, which everybody may read.
func (f *FS) Readlink(_ nfsserver.Cred, r nfsserver.Ref) (string, error) {
	n, err := f.acquire(&r)
	if err != nil {
		return "", err
	}
	defer f.cache.release(n)
	if n.typ != nfsserver.TypeSymlink {
		return "", unix.EINVAL
	}
	b := make([]byte, unix.PathMax)
	k, err := again2(func() (int, error) { return unix.Readlinkat(n.fd(), "", b) })
	return string(b[:max(k, 0)]), err
}
