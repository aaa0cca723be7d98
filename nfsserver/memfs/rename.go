// Rename, the operation with the most ways to be wrong.

package memfs

import (
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// Rename moves a name.
func (f *FS) Rename(_ nfsserver.Cred, from nfsserver.Ref, fromName string, to nfsserver.Ref, toName string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	src, n, err := f.named(&from, fromName)
	if err != nil {
		return err
	}
	dst, err := f.findDir(&to)
	switch {
	case err != nil:
		return err
	case toName == "." || toName == "..":
		return syscall.ENOTEMPTY
	case len(toName) > nameMax:
		return syscall.ENAMETOOLONG
	case n.dir != nil && inside(dst, n):
		return syscall.EINVAL
	}
	if old := dst.dir.names[toName]; old != nil {
		if old.inode == n {
			return nil // two names of one file stay (RFC 1813 §3.3.14)
		}
		if err := replaceable(n, old.inode); err != nil {
			return err
		}
		f.drop(dst, toName, old.inode)
	}
	f.move(src, fromName, dst, toName, n)
	return nil
}

// move does a rename to a name that is free; f.mu is held for writing.
func (f *FS) move(src *inode, fromName string, dst *inode, toName string, n *inode) {
	src.dir.remove(fromName)
	dst.dir.add(toName, n)
	f.used.Add(int64(len(toName) - len(fromName)))
	if n.dir != nil && src != dst {
		n.dir.parent = dst
		src.addLinks(-1)
		dst.addLinks(1)
	}
	n.addLinks(0) // changes ctime
	src.touchDir()
	dst.touchDir()
}

// replaceable tells whether old may give its name to n.
func replaceable(n, old *inode) error {
	switch {
	case n.dir != nil && old.dir == nil:
		return syscall.ENOTDIR
	case n.dir == nil && old.dir != nil:
		return syscall.EISDIR
	case old.dir != nil && len(old.dir.names) > 0:
		return syscall.ENOTEMPTY
	}
	return nil
}

// inside reports whether directory d is n or below it.
func inside(d, n *inode) bool {
	for ; d != n; d = d.dir.parent {
		if d.dir.parent == d {
			return false
		}
	}
	return true
}
