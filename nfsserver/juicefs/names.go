// Names: find, make, link, remove.

package juicefs

import (
	"errors"
	"syscall"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/perm"
)

// Lookup finds a name.
func (f *FS) Lookup(c nfsserver.Cred, dir nfsserver.Ref, name string) (nfsserver.Ref, nfsserver.Attr, error) {
	d, err := f.loadDir(&dir)
	if err == nil {
		err = d.rights().Check(&c, nfsserver.MayExec)
	}
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	n, err := f.find(d, name)
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	return f.ref(n.ino, n.attr.Type), n.attr, nil
}

// find returns the object with a name in d, including its ACL. The trash cannot be found.
func (f *FS) find(d *inode, name string) (*inode, error) {
	n := new(inode)
	switch {
	case name == ".":
		return d, nil
	case name == "..":
		if d.ino == f.root {
			return d, nil
		}
		return n, f.loadInode(n, d.parent)
	case len(name) > nameMax:
		return nil, syscall.ENAMETOOLONG
	case d.ino == rootIno && name == meta.TrashName:
		return nil, syscall.ENOENT
	}
	for range replacements {
		var ino meta.Ino
		var a meta.Attr
		closed := f.files.closes()
		if no := f.m.Lookup(system, d.ino, name, &ino, &a, false); no != 0 {
			return nil, failed(no)
		}
		a, is, err := f.files.found(ino, a, closed)
		if err == nil {
			err = f.loaded(n, ino, &a, is)
		}
		if !errors.Is(err, nfsserver.ErrStale) {
			return n, err
		}
		// Removed or replaced between the two queries.
	}
	return nil, nfsserver.ErrBusy
}

// replacements bounds the look-ups of a name that keeps being replaced.
const replacements = 100

// Create makes an empty file.
func (f *FS) Create(c nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return f.add(&c, dir, name, nfsserver.TypeReg, s, "", 0)
}

// Mkdir makes an empty directory.
func (f *FS) Mkdir(c nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return f.add(&c, dir, name, nfsserver.TypeDir, s, "", 0)
}

// Symlink makes a symbolic link.
func (f *FS) Symlink(c nfsserver.Cred, dir nfsserver.Ref, name, target string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	switch {
	case target == "":
		return nfsserver.Ref{}, nfsserver.Attr{}, syscall.ENOENT
	case len(target) > meta.MaxSymlink:
		return nfsserver.Ref{}, nfsserver.Attr{}, syscall.ENAMETOOLONG
	}
	return f.add(&c, dir, name, nfsserver.TypeSymlink, s, target, 0)
}

// Mknod makes a socket, FIFO or device.
func (f *FS) Mknod(c nfsserver.Cred, dir nfsserver.Ref, name string, t nfsserver.FileType, rdev nfsserver.Rdev, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	var dev uint32
	switch t {
	case nfsserver.TypeSocket, nfsserver.TypeFIFO:
	case nfsserver.TypeBlock, nfsserver.TypeChar:
		if c.UID != 0 {
			return nfsserver.Ref{}, nfsserver.Attr{}, syscall.EPERM
		}
		var err error
		if dev, err = packRdev(rdev); err != nil {
			return nfsserver.Ref{}, nfsserver.Attr{}, err
		}
		if !f.keeps(dev) {
			return nfsserver.Ref{}, nfsserver.Attr{}, syscall.EINVAL
		}
	default:
		return nfsserver.Ref{}, nfsserver.Attr{}, nfsserver.ErrBadType
	}
	return f.add(&c, dir, name, t, s, "", dev)
}

// add makes an object. Type, mode and owner hold from its first moment. Later transactions set the
// size, times, and a group other than the one inherited from the directory.
func (f *FS) add(c *nfsserver.Cred, dir nfsserver.Ref, name string, t nfsserver.FileType, s *nfsserver.SetAttr, target string, dev uint32) (r nfsserver.Ref, _ nfsserver.Attr, err error) {
	d, err := f.newName(c, &dir, name)
	if err != nil {
		return r, nfsserver.Attr{}, err
	}
	set, err := perm.Newborn(c, &d.attr, t, s)
	if err != nil {
		return r, nfsserver.Attr{}, err
	}
	if !f.keeps(set.UID) || !f.keeps(set.GID) {
		return r, nfsserver.Attr{}, syscall.EINVAL
	}
	if t == nfsserver.TypeSymlink {
		set.Mode = 0o777
	}
	var ino meta.Ino
	var a meta.Attr
	if m := f.mark(c.Call, t, period(f.now())); m != 0 {
		dev, a.Rdev = m, m // a.Rdev: Mknod sets no device number for directories and symbolic links
	}
	var all bool // the object is complete
	no := f.m.Mknod(as(set.UID, set.GID), d.ino, name, kind(t), uint16(set.Mode&nfsserver.ModeAll), 0, dev, target, &ino, &a)
	if no == syscall.EEXIST {
		if was, at, ok := f.made(c, d, name, t); ok {
			ino, a, no, all = was, at, 0, !untouched(&at)
		}
	}
	if f.changed(d, no) != 0 {
		return r, nfsserver.Attr{}, failedOn(no)
	}
	n := new(inode)
	f.fill(n, ino, &a)
	r = f.ref(ino, t)
	// A server that crashed may have left an object incomplete. Once its owner has changed the
	// object it is not completed: the call may be a late copy of one that another server has
	// answered.
	if all || !f.complete(n, &set) {
		return r, n.attr, nil
	}
	if err := f.finish(n, &set); err != nil {
		return r, nfsserver.Attr{}, err
	}
	at, err := f.attrOf(ino)
	return r, at, err
}

// complete reports whether a new object still lacks something from s.
func (f *FS) complete(n *inode, s *nfsserver.SetAttr) bool {
	return s.Has(nfsserver.SetAtime|nfsserver.SetMtime) || s.GID != n.attr.GID ||
		n.attr.Type == nfsserver.TypeReg && s.Has(nfsserver.SetSize) && s.Size > 0
}

// finish sets the rest of s on a new object.
func (f *FS) finish(n *inode, s *nfsserver.SetAttr) error {
	if n.attr.Type == nfsserver.TypeReg && s.Has(nfsserver.SetSize) && s.Size > 0 {
		o := f.files.use(n.ino)
		err := o.resize(min(s.Size, maxFileSize))
		f.files.release(o)
		if err != nil {
			return err
		}
	}
	rest := *s
	rest.Mask &= nfsserver.SetAtime | nfsserver.SetMtime | nfsserver.SetAtimeNow | nfsserver.SetMtimeNow
	rest.Mode = n.attr.Mode // limited by the default ACL
	if s.GID != n.attr.GID {
		rest.Mask |= nfsserver.SetGID | nfsserver.SetMode
	}
	if rest.Mask == 0 {
		return nil
	}
	return f.apply(n, &rest)
}

// newName returns a directory where c may create name.
func (f *FS) newName(c *nfsserver.Cred, dir *nfsserver.Ref, name string) (*inode, error) {
	d, err := f.loadDir(dir)
	if err == nil {
		err = d.rights().Check(c, nfsserver.MayExec)
	}
	switch {
	case err != nil:
		return nil, err
	case name == "." || name == "..":
		return nil, syscall.EEXIST
	case len(name) > nameMax:
		return nil, syscall.ENAMETOOLONG
	}
	if err := d.rights().Check(c, nfsserver.MayWrite); err != nil {
		if _, found := f.find(d, name); found == nil {
			err = syscall.EEXIST
		}
		return nil, err
	}
	return d, nil
}

// changed sets directory d to the current time after a successful change of its names (no is 0) if
// JuiceFS leaves a time in the far future. Clients validate their caches by this time. It returns
// no.
func (f *FS) changed(d *inode, no syscall.Errno) syscall.Errno {
	if no == 0 && time.Unix(d.attr.Mtime.Sec, 0).After(time.Now().Add(clockAhead)) {
		// It may fail: the names are changed.
		f.m.SetAttr(system, d.ino, meta.SetAttrMtimeNow, 0, new(meta.Attr))
	}
	return no
}

// Link adds a name.
func (f *FS) Link(c nfsserver.Cred, r, dir nfsserver.Ref, name string) error {
	n, err := f.load(&r)
	if err != nil {
		return err
	}
	if n.attr.Type == nfsserver.TypeDir {
		return syscall.EPERM
	}
	d, err := f.newName(&c, &dir, name)
	if err != nil {
		return err
	}
	if n.attr.Nlink >= linkMax {
		return syscall.EMLINK
	}
	end := f.calls.begin(f, opLink, c.Call, n)
	var a meta.Attr
	no := f.changed(d, f.m.Link(system, n.ino, d.ino, name, &a))
	end(no)
	return f.linked(&c, &dir, name, failedOn(no))
}

// Remove takes a name away.
func (f *FS) Remove(c nfsserver.Cred, dir nfsserver.Ref, name string) error {
	defer f.removals.lock(dir, name)()
	d, n, err := f.named(&c, &dir, name)
	if err == nil {
		err = d.rights().MayUnlink(&c, &n.attr)
	}
	switch {
	case err != nil:
		return f.removed(opRemove, &c, &dir, name, err)
	case n.attr.Type == nfsserver.TypeDir:
		return syscall.EISDIR
	}
	end := f.calls.begin(f, opRemove, c.Call, n)
	if n.attr.Nlink > 1 || f.files.hasTrash() {
		f.files.settle(n.ino) // for the remaining file; without another name no commit is needed
	}
	no := f.changed(d, f.m.Unlink(system, d.ino, name))
	end(no)
	return f.removed(opRemove, &c, &dir, name, failed(no))
}

// Rmdir takes an empty directory away.
func (f *FS) Rmdir(c nfsserver.Cred, dir nfsserver.Ref, name string) error {
	defer f.removals.lock(dir, name)()
	d, n, err := f.named(&c, &dir, name)
	if err == nil {
		err = d.rights().MayUnlink(&c, &n.attr)
	}
	switch {
	case err != nil:
		return f.removed(opRmdir, &c, &dir, name, err)
	case n.attr.Type != nfsserver.TypeDir:
		return syscall.ENOTDIR
	}
	end := f.calls.begin(f, opRmdir, c.Call, n)
	no := f.changed(d, f.m.Rmdir(system, d.ino, name))
	end(no)
	return f.removed(opRmdir, &c, &dir, name, failed(no))
}

// named returns a directory that c may search, and the object with a name in it.
func (f *FS) named(c *nfsserver.Cred, dir *nfsserver.Ref, name string) (d, n *inode, err error) {
	if d, err = f.loadDir(dir); err == nil {
		err = d.rights().Check(c, nfsserver.MayExec)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case name == ".":
		return nil, nil, syscall.EINVAL
	case name == "..":
		return nil, nil, syscall.ENOTEMPTY
	}
	if n, err = f.find(d, name); err != nil {
		return nil, nil, err
	}
	return d, n, nil
}
