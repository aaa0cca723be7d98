// Attributes of objects in memory.

package memfs

import (
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/perm"
)

// Getattr returns the attributes.
func (f *FS) Getattr(r nfsserver.Ref) (nfsserver.Attr, error) {
	n, err := f.get(&r)
	if err != nil {
		return nfsserver.Attr{}, err
	}
	return n.getattr(), nil
}

func (n *inode) getattr() nfsserver.Attr {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.attr
}

// Setattr sets owner, size, mode and times, or nothing.
func (f *FS) Setattr(c nfsserver.Cred, r nfsserver.Ref, s *nfsserver.SetAttr) error {
	n, err := f.get(&r)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := nfsserver.Now()
	if s.Has(nfsserver.SetSize) {
		switch {
		case n.typ == nfsserver.TypeDir:
			return syscall.EISDIR
		case n.typ != nfsserver.TypeReg:
			return syscall.EINVAL
		}
	}
	if err := n.rights().MaySet(&c, s); err != nil {
		return err
	}
	if s.Has(nfsserver.SetSize) {
		if err := f.truncate(n, s.Size); err != nil {
			return err
		}
		n.attr.Mtime = now
	}
	set := *s
	perm.SettleMode(&c, n.attr, &set)
	n.apply(&set, now)
	n.attr.Ctime = now
	return nil
}

// apply sets all attributes in s except the size; n.mu is held or n is new.
func (n *inode) apply(s *nfsserver.SetAttr, now nfsserver.Time) {
	a := &n.attr
	if s.Has(nfsserver.SetMode) && n.typ != nfsserver.TypeSymlink {
		a.Mode = s.Mode & nfsserver.ModeAll
	}
	if s.Has(nfsserver.SetUID) {
		a.UID = s.UID
	}
	if s.Has(nfsserver.SetGID) {
		a.GID = s.GID
	}
	setTime(&a.Atime, s.Has(nfsserver.SetAtime), s.Atime, s.Has(nfsserver.SetAtimeNow), now)
	setTime(&a.Mtime, s.Has(nfsserver.SetMtime), s.Mtime, s.Has(nfsserver.SetMtimeNow), now)
}

func setTime(t *nfsserver.Time, set bool, v nfsserver.Time, setNow bool, now nfsserver.Time) {
	switch {
	case set:
		*t = v
	case setNow:
		*t = now
	}
}

// touch sets the times after a content change; n.mu is held.
func (n *inode) touch() {
	n.attr.Mtime = nfsserver.Now()
	n.attr.Ctime = n.attr.Mtime
}

// touchDir sets the times after a change to a directory's names.
func (n *inode) touchDir() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.touch()
}

// addLinks changes the link count; FS.mu is held for writing.
func (n *inode) addLinks(d int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.attr.Nlink = uint32(int(n.attr.Nlink) + d)
	n.attr.Ctime = nfsserver.Now()
}

// Readlink returns a symbolic link's target.
func (f *FS) Readlink(_ nfsserver.Cred, r nfsserver.Ref) (string, error) {
	n, err := f.get(&r)
	if err != nil {
		return "", err
	}
	if n.typ != nfsserver.TypeSymlink {
		return "", syscall.EINVAL
	}
	return n.target, nil // set once, before the inode had a name
}
