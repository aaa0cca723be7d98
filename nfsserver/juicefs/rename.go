// Rename.

package juicefs

import (
	"errors"
	"syscall"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// Rename moves a name, in one transaction of the metadata service.
func (f *FS) Rename(c nfsserver.Cred, from nfsserver.Ref, fromName string, to nfsserver.Ref, toName string) error {
	src, n, err := f.named(&c, &from, fromName)
	if err != nil {
		return f.renamed(&c, &to, toName, err)
	}
	dst := src
	if to != from {
		if dst, err = f.loadDir(&to); err == nil {
			err = dst.rights().Check(&c, nfsserver.MayExec)
		}
	}
	switch {
	case err != nil:
		return err
	case toName == "." || toName == "..":
		return syscall.ENOTEMPTY
	case len(toName) > nameMax:
		return syscall.ENAMETOOLONG
	}
	if n.attr.Type == nfsserver.TypeDir && src.ino != dst.ino {
		// JuiceFS checks only the parent.
		f.renames.Lock()
		defer f.renames.Unlock()
		if inside, err := f.inside(dst, n); err != nil || inside {
			return either(err, syscall.EINVAL)
		}
	}
	old, err := f.find(dst, toName)
	switch {
	case errors.Is(err, syscall.ENOENT):
		old = nil
	case err != nil:
		return err
	case old.ino == n.ino:
		return nil // two names of one file stay (RFC 1813 §3.3.14)
	}
	if err := mayMove(&c, src, n, dst, old); err != nil {
		return err
	}
	end := f.calls.begin(f, opRename, c.Call, n)
	var ino meta.Ino
	var a meta.Attr
	no := f.changed(dst, f.changed(src, f.m.Rename(system, src.ino, fromName, dst.ino, toName, 0, &ino, &a)))
	end(no)
	return f.renamed(&c, &to, toName, failed(no))
}

func either(err error, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// mayMove checks that c may move n from directory src to dst, replacing old if it is not nil, and
// that old can be replaced. Moving a directory to another one changes its "..", which needs write
// permission on it.
func mayMove(c *nfsserver.Cred, src, n, dst, old *inode) error {
	err := src.rights().MayUnlink(c, &n.attr)
	switch {
	case err != nil:
	case old != nil:
		err = dst.rights().MayUnlink(c, &old.attr)
	default:
		err = dst.rights().Check(c, nfsserver.MayWrite|nfsserver.MayExec)
	}
	if err == nil && n.attr.Type == nfsserver.TypeDir && src.ino != dst.ino {
		err = n.rights().Check(c, nfsserver.MayWrite)
	}
	if err != nil || old == nil {
		return err
	}
	switch is, was := n.attr.Type == nfsserver.TypeDir, old.attr.Type == nfsserver.TypeDir; {
	case is && !was:
		return syscall.ENOTDIR
	case !is && was:
		return syscall.EISDIR
	}
	return nil
}

// inside reports whether directory d is n or below it; renames is held.
func (f *FS) inside(d, n *inode) (bool, error) {
	ino, up := d.ino, d.parent
	for ino != n.ino {
		if ino == f.root || ino == rootIno {
			return false, nil
		}
		a, err := f.files.raw(up)
		if err != nil {
			return false, err
		}
		ino, up = up, a.Parent
	}
	return true, nil
}
