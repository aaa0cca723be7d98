// Operations on names: make and remove.

package tree

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/perm"
)

// Create makes an empty file.
func (f *FS) Create(c nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return f.add(&c, dir, name, nfsserver.TypeReg, s, func(path string, mode fs.FileMode) error {
		x, err := f.b.Open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return err
		}
		if s.Has(nfsserver.SetSize) && s.Size > 0 {
			err = x.Truncate(int64(s.Size))
		}
		return errors.Join(err, x.Close())
	})
}

// Mkdir makes an empty directory.
func (f *FS) Mkdir(c nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return f.add(&c, dir, name, nfsserver.TypeDir, s, f.b.Mkdir)
}

// Symlink makes a symbolic link.
func (f *FS) Symlink(c nfsserver.Cred, dir nfsserver.Ref, name, target string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return f.add(&c, dir, name, nfsserver.TypeSymlink, s, func(path string, _ fs.FileMode) error {
		if !f.kind.Symlinks {
			return syscall.EOPNOTSUPP
		}
		return f.b.Symlink(target, path)
	})
}

// Mknod fails, because no tree has such objects.
func (f *FS) Mknod(c nfsserver.Cred, dir nfsserver.Ref, name string, t nfsserver.FileType, _ nfsserver.Rdev, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return f.add(&c, dir, name, t, s, func(string, fs.FileMode) error { return nfsserver.ErrBadType })
}

// Link fails, because no tree has hard links.
func (f *FS) Link(c nfsserver.Cred, r, dir nfsserver.Ref, name string) error {
	f.names.Lock()
	defer f.names.Unlock()
	o, err := f.get(&r)
	if err != nil {
		return err
	}
	if o.attr.Type == nfsserver.TypeDir {
		return syscall.EPERM
	}
	if _, err := f.newName(&c, &dir, name); err != nil {
		return err
	}
	return syscall.EOPNOTSUPP
}

// add makes an object with type t by mk, which gets a mode that only the owner can use.
func (f *FS) add(c *nfsserver.Cred, dir nfsserver.Ref, name string, t nfsserver.FileType, s *nfsserver.SetAttr, mk func(string, fs.FileMode) error) (r nfsserver.Ref, a nfsserver.Attr, err error) {
	f.names.Lock()
	defer f.names.Unlock()
	d, err := f.newName(c, &dir, name)
	if err != nil {
		return r, a, err
	}
	if s.Has(nfsserver.SetSize) && s.Size > f.info.MaxFileSize {
		return r, a, syscall.EFBIG
	}
	set, err := perm.Newborn(c, &d.attr, t, s)
	if err != nil {
		return r, a, err
	}
	o := object{path: d.child(name)}
	mode := fs.FileMode(set.Mode&0o700) | 0o600
	if t == nfsserver.TypeDir {
		mode |= 0o100
	}
	if err := mk(o.path, mode); err != nil {
		return r, a, outcome(err)
	}
	if o.id, err = f.table.Add(d.id, name); err == nil {
		err = f.born(&o, &set)
	} else {
		err = syscall.ENOSPC
	}
	if err != nil {
		f.table.DropName(d.id, name)
		return r, a, errors.Join(err, f.b.Remove(o.path))
	}
	f.touched(d.id)
	r, err = f.ref(o.id)
	return r, o.attr, err
}

// born sets a new object's attributes.
func (f *FS) born(o *object, set *nfsserver.SetAttr) (err error) {
	if o.info, err = f.b.Stat(o.path); err != nil {
		return err
	}
	f.sameType(o.id, o.info)
	o.attr = f.attr(o.id, o.path, o.info)
	return f.apply(o, set)
}

// outcome returns the error for a change that a tree has no method for.
func outcome(err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		return syscall.EOPNOTSUPP
	}
	return err
}

// newName returns the directory in which c may make name; names is held for writing.
func (f *FS) newName(c *nfsserver.Cred, dir *nfsserver.Ref, name string) (d object, err error) {
	d, err = f.getDir(c, dir, nfsserver.MayExec)
	switch {
	case err != nil:
		return d, err
	case name == "." || name == "..":
		return d, syscall.EEXIST
	}
	_, err = f.in(&d, name)
	switch {
	case err == nil:
		return d, syscall.EEXIST
	case !errors.Is(err, fs.ErrNotExist):
		return d, err
	case f.ro:
		return d, syscall.EROFS
	}
	return d, d.rights().Check(c, nfsserver.MayWrite)
}

// named returns a directory that c may search, and the object under name in it; names is held.
func (f *FS) named(c *nfsserver.Cred, dir *nfsserver.Ref, name string) (d, o object, err error) {
	if d, err = f.getDir(c, dir, nfsserver.MayExec); err != nil {
		return d, o, err
	}
	switch name {
	case ".":
		return d, o, syscall.EINVAL
	case "..":
		return d, o, syscall.ENOTEMPTY
	}
	o, err = f.in(&d, name)
	return d, o, err
}

// mayUnlink checks that c may remove the name of o from d.
func (f *FS) mayUnlink(c *nfsserver.Cred, d, o *object) error {
	if f.ro {
		return syscall.EROFS
	}
	return d.rights().MayUnlink(c, &o.attr)
}

// Remove removes a name that is not a directory's.
func (f *FS) Remove(c nfsserver.Cred, dir nfsserver.Ref, name string) error {
	return f.unlink(&c, &dir, name, func(o *object) error {
		if o.attr.Type == nfsserver.TypeDir {
			return syscall.EISDIR
		}
		return nil
	})
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(c nfsserver.Cred, dir nfsserver.Ref, name string) error {
	return f.unlink(&c, &dir, name, func(o *object) error {
		if o.attr.Type != nfsserver.TypeDir {
			return syscall.ENOTDIR
		}
		return f.empty(o)
	})
}

// empty returns ENOTEMPTY for a directory with names, because some trees remove these, too.
func (f *FS) empty(o *object) error {
	names, err := f.b.List(o.path)
	if err == nil && len(names) > 0 {
		return syscall.ENOTEMPTY
	}
	return err
}

// unlink removes a name if check allows it.
func (f *FS) unlink(c *nfsserver.Cred, dir *nfsserver.Ref, name string, check func(*object) error) error {
	f.names.Lock()
	defer f.names.Unlock()
	d, o, err := f.named(c, dir, name)
	if err == nil {
		err = f.mayUnlink(c, &d, &o)
	}
	if err == nil {
		err = check(&o)
	}
	if err == nil {
		err = f.discard(&o)
	}
	if err != nil {
		return err
	}
	f.touched(d.id)
	return nil
}

// discard removes an object; names is held for writing.
func (f *FS) discard(o *object) error {
	f.files.drop(o.id)
	if err := f.b.Remove(o.path); err != nil {
		return outcome(err)
	}
	f.table.Drop(o.id)
	return nil
}
