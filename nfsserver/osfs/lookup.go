// Lookup, and how a name becomes a node.

package osfs

import (
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// Lookup opens a name of a directory and keeps it open: its attributes and
// content are asked for next.
func (f *FS) Lookup(_ nfsserver.Cred, dir nfsserver.Ref, name string) (nfsserver.Ref, nfsserver.Attr, error) {
	d, err := f.acquireDir(&dir)
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	defer f.cache.release(d)
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
	var st unix.Stat_t
	r, err := f.statRef(fd, &st)
	if err != nil {
		unix.Close(fd)
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	f.index.note(&r, d, name)
	n := newNode(&r, fileType(st.Mode))
	n.path.Store(int32(fd))
	f.cache.release(f.cache.put(n))
	return r, f.attrOf(&st), nil
}

// statRef fills st and returns the Ref of an open file.
func (f *FS) statRef(fd int, st *unix.Stat_t) (nfsserver.Ref, error) {
	if err := unix.Fstat(fd, st); err != nil {
		return nfsserver.Ref{}, err
	}
	return f.refOf(fd, st)
}

// parent is the directory above d, which is not the root. A directory that
// somebody has moved out of the export has none that we may show.
func (f *FS) parent(d *node) (nfsserver.Ref, nfsserver.Attr, error) {
	fd, err := f.tree.openPath(d.fd(), "..")
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	r, err := f.statRef(fd, &st)
	switch {
	case err != nil:
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	case r == f.root:
		return r, f.attrOf(&st), nil
	case !f.below(fd, &st):
		return nfsserver.Ref{}, nfsserver.Attr{}, nfsserver.ErrStale
	}
	return r, f.attrOf(&st), nil
}

// below reports whether the directory fd, with attributes st, lies under the root.
func (f *FS) below(fd int, st *unix.Stat_t) bool {
	const maxDepth = 4096
	at := *st
	cur, err := unix.Dup(fd)
	for range maxDepth {
		if err != nil {
			return false
		}
		if at.Dev == f.rootDev && at.Ino == f.rootIno {
			unix.Close(cur)
			return true
		}
		was := at
		up, e := f.tree.openPath(cur, "..")
		unix.Close(cur)
		if cur, err = up, e; err != nil {
			return false
		}
		if err = unix.Fstat(cur, &at); err != nil || at.Dev == was.Dev && at.Ino == was.Ino {
			unix.Close(cur)
			return false
		}
	}
	unix.Close(cur)
	return false
}

// Readlink returns the target of a symbolic link.
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
	k, err := unix.Readlinkat(n.fd(), "", b)
	return string(b[:max(k, 0)]), err
}
