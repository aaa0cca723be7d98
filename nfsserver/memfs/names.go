// Operations on names: make, link, remove.

package memfs

import (
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/perm"
)

// Create makes an empty file.
func (f *FS) Create(c nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return f.add(&c, dir, name, nfsserver.TypeReg, s, 0, func(n *inode) { n.attr.Size = 0 })
}

// Mkdir makes an empty directory.
func (f *FS) Mkdir(c nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return f.add(&c, dir, name, nfsserver.TypeDir, s, 0, func(n *inode) { n.attr.Nlink = 2 })
}

// Symlink makes a symbolic link.
func (f *FS) Symlink(c nfsserver.Cred, dir nfsserver.Ref, name, target string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	if target == "" {
		return nfsserver.Ref{}, nfsserver.Attr{}, syscall.ENOENT
	}
	return f.add(&c, dir, name, nfsserver.TypeSymlink, s, int64(len(target)), func(n *inode) {
		n.target, n.attr.Size, n.attr.Mode = target, uint64(len(target)), 0o777
	})
}

// Mknod makes a socket, FIFO or device.
func (f *FS) Mknod(c nfsserver.Cred, dir nfsserver.Ref, name string, t nfsserver.FileType, rdev nfsserver.Rdev, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	switch t {
	case nfsserver.TypeSocket, nfsserver.TypeFIFO:
		rdev = nfsserver.Rdev{}
	case nfsserver.TypeBlock, nfsserver.TypeChar:
		if c.UID != 0 {
			return nfsserver.Ref{}, nfsserver.Attr{}, syscall.EPERM
		}
	default:
		return nfsserver.Ref{}, nfsserver.Attr{}, nfsserver.ErrBadType
	}
	return f.add(&c, dir, name, t, s, 0, func(n *inode) { n.attr.Rdev = rdev })
}

// add makes an object of type t, calls fill to complete it, and gives it a name. It charges extra
// bytes beside the usual ones.
func (f *FS) add(c *nfsserver.Cred, dir nfsserver.Ref, name string, t nfsserver.FileType, s *nfsserver.SetAttr, extra int64, fill func(*inode)) (nfsserver.Ref, nfsserver.Attr, error) {
	var none nfsserver.Ref
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := f.newName(c, &dir, name)
	if err != nil {
		return none, nfsserver.Attr{}, err
	}
	at := d.getattr()
	set, err := perm.Newborn(c, &at, t, s)
	if err != nil {
		return none, nfsserver.Attr{}, err
	}
	if err := f.charge(inodeCost + nameCost + int64(len(name)) + extra); err != nil {
		return none, nfsserver.Attr{}, err
	}
	n := f.newInode(t, &set)
	fill(n)
	if t == nfsserver.TypeReg && s.Has(nfsserver.SetSize) {
		n.attr.Size = min(s.Size, maxFileSize)
	}
	if t == nfsserver.TypeDir {
		n.dir = newDir(d)
		d.addLinks(1)
	}
	f.inodes[n.ino] = n
	d.dir.add(name, n)
	d.touchDir()
	return f.ref(n), n.getattr(), nil
}

// newName returns the directory in which c may make name; f.mu is held for writing.
func (f *FS) newName(c *nfsserver.Cred, dir *nfsserver.Ref, name string) (*inode, error) {
	d, err := f.findDir(dir)
	if err == nil {
		err = d.check(c, nfsserver.MayExec)
	}
	switch {
	case err != nil:
		return nil, err
	case name == "." || name == ".." || d.dir.names[name] != nil:
		return nil, syscall.EEXIST
	case len(name) > nameMax:
		return nil, syscall.ENAMETOOLONG
	}
	return d, d.check(c, nfsserver.MayWrite)
}

// Link adds a name.
func (f *FS) Link(c nfsserver.Cred, r, dir nfsserver.Ref, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find(&r)
	if err != nil {
		return err
	}
	if n.dir != nil {
		return syscall.EPERM
	}
	d, err := f.newName(&c, &dir, name)
	if err != nil {
		return err
	}
	if n.attr.Nlink == linkMax {
		return syscall.EMLINK
	}
	if err := f.charge(nameCost + int64(len(name))); err != nil {
		return err
	}
	d.dir.add(name, n)
	n.addLinks(1)
	d.touchDir()
	return nil
}

// Remove removes a name, and the object with its last name.
func (f *FS) Remove(c nfsserver.Cred, dir nfsserver.Ref, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, n, err := f.named(&c, &dir, name)
	if err != nil {
		return err
	}
	if err := mayUnlink(&c, d, n); err != nil {
		return err
	}
	if n.dir != nil {
		return syscall.EISDIR
	}
	f.drop(d, name, n)
	return nil
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(c nfsserver.Cred, dir nfsserver.Ref, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, n, err := f.named(&c, &dir, name)
	if err == nil {
		err = mayUnlink(&c, d, n)
	}
	switch {
	case err != nil:
		return err
	case n.dir == nil:
		return syscall.ENOTDIR
	case len(n.dir.names) > 0:
		return syscall.ENOTEMPTY
	}
	f.drop(d, name, n)
	return nil
}

// named returns a directory that c may search, and the object under name in it; f.mu is held.
func (f *FS) named(c *nfsserver.Cred, dir *nfsserver.Ref, name string) (d, n *inode, err error) {
	if d, err = f.findDir(dir); err == nil {
		err = d.check(c, nfsserver.MayExec)
	}
	if err != nil {
		return nil, nil, err
	}
	switch name {
	case ".":
		return nil, nil, syscall.EINVAL
	case "..":
		return nil, nil, syscall.ENOTEMPTY
	}
	e := d.dir.names[name]
	if e == nil {
		return nil, nil, syscall.ENOENT
	}
	return d, e.inode, nil
}

// drop removes a name of n, and n itself with its last name; f.mu is held for writing.
func (f *FS) drop(d *inode, name string, n *inode) {
	d.dir.remove(name)
	d.touchDir()
	f.refund(nameCost + int64(len(name)))
	if n.dir != nil {
		d.addLinks(-1)
		n.addLinks(-1)
	}
	n.addLinks(-1)
	if n.attr.Nlink > 0 {
		return
	}
	delete(f.inodes, n.ino)
	f.refund(inodeCost + int64(len(n.target)))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = true
	f.dropPages(n, 0)
}
