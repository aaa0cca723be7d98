// Rename, with its checks of both names and directories.

package memfs

import (
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// Rename moves a name.
func (f *FS) Rename(c nfsserver.Cred, from nfsserver.Ref, fromName string, to nfsserver.Ref, toName string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	src, n, err := f.named(&c, &from, fromName)
	if err != nil {
		return err
	}
	dst, err := f.findDir(&to)
	if err == nil {
		err = dst.check(&c, nfsserver.MayExec)
	}
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
	old := dst.dir.names[toName]
	if old != nil && old.inode == n {
		return nil // RFC 1813 §3.3.14: two names of one file both stay
	}
	if err := mayMove(&c, src, n, dst, old); err != nil {
		return err
	}
	if old != nil {
		if err := replaceable(n, old.inode); err != nil {
			return err
		}
		f.drop(dst, toName, old.inode)
	}
	f.move(src, fromName, dst, toName, n)
	return nil
}

// mayMove checks that c may move n from directory src to dst, over old if there is one. Moving a
// directory to another one changes its "..", so it must be writable.
func mayMove(c *nfsserver.Cred, src, n, dst *inode, old *entry) error {
	err := mayUnlink(c, src, n)
	switch {
	case err != nil:
	case old != nil:
		err = mayUnlink(c, dst, old.inode)
	default:
		err = dst.check(c, nfsserver.MayWrite|nfsserver.MayExec)
	}
	if err == nil && n.dir != nil && src != dst {
		err = n.check(c, nfsserver.MayWrite)
	}
	return err
}

// move renames to a free name; f.mu is held for writing.
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

// replaceable returns an error unless old can give its name to n.
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
