// Rename, with its checks of both names and directories.

package tree

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/pathtree"
)

// Rename moves a name.
func (f *FS) Rename(c nfsserver.Cred, from nfsserver.Ref, fromName string, to nfsserver.Ref, toName string) error {
	f.names.Lock()
	defer f.names.Unlock()
	src, o, err := f.named(&c, &from, fromName)
	if err != nil {
		return err
	}
	dst, err := f.getDir(&c, &to, nfsserver.MayExec)
	switch {
	case err != nil:
		return err
	case toName == "." || toName == "..":
		return syscall.ENOTEMPTY
	}
	old, err := f.in(&dst, toName)
	switch {
	case err == nil && old.id == o.id:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case f.table.Inside(dst.id, o.id):
		return syscall.EINVAL
	}
	replaced := err == nil
	if err := f.mayMove(&c, &src, &o, &dst, &old, replaced); err != nil {
		return err
	}
	if err := f.move(&o, &old, dst.child(toName), replaced); err != nil {
		return outcome(err)
	}
	if err := f.table.Move(src.id, fromName, dst.id, toName); err != nil {
		return nfsserver.ErrStale
	}
	f.touched(src.id)
	f.touched(dst.id)
	now := nsOf(nfsserver.Now())
	f.table.Keep(o.id, func(k *pathtree.Kept) { k.CtimeMin = now })
	return nil
}

// mayMove checks that c may move o from src to dst, over old if replaced is set.
func (f *FS) mayMove(c *nfsserver.Cred, src, o, dst, old *object, replaced bool) error {
	err := f.mayUnlink(c, src, o)
	dir := o.attr.Type == nfsserver.TypeDir
	switch {
	case err != nil:
	case replaced:
		err = f.mayUnlink(c, dst, old)
	default:
		err = dst.rights().Check(c, nfsserver.MayWrite|nfsserver.MayExec)
	}
	if err == nil && dir && src.id != dst.id {
		err = o.rights().Check(c, nfsserver.MayWrite) // its ".." changes
	}
	if err != nil || !replaced {
		return err
	}
	switch oldDir := old.attr.Type == nfsserver.TypeDir; {
	case dir && !oldDir:
		return syscall.ENOTDIR
	case !dir && oldDir:
		return syscall.EISDIR
	case dir:
		return f.empty(old)
	}
	return nil
}

// move renames o in the tree. Where the tree does not replace objects, old is removed before: all
// callers wait meanwhile, so none sees the name absent.
func (f *FS) move(o, old *object, path string, replaced bool) error {
	if o.attr.Type == nfsserver.TypeDir {
		f.files.dropAll()
	} else {
		f.files.drop(o.id)
	}
	if !replaced {
		return f.b.Rename(o.path, path)
	}
	f.files.drop(old.id)
	err := f.b.Rename(o.path, path)
	if errors.Is(err, fs.ErrExist) {
		if err = f.b.Remove(path); err == nil {
			err = f.b.Rename(o.path, path)
		}
	}
	return err
}
