// Permissions: what a kernel would decide, from mode, owner and group.

package memfs

import (
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// inGroup reports whether c belongs to group g.
func inGroup(c *nfsserver.Cred, g uint32) bool { return c.GID == g || slices.Contains(c.GIDs, g) }

// hasGroup reports whether c may give objects of group g the set-group-id bit.
func hasGroup(c *nfsserver.Cred, g uint32) bool { return c.UID == 0 || inGroup(c, g) }

func owns(c *nfsserver.Cred, a *nfsserver.Attr) bool { return c.UID == 0 || c.UID == a.UID }

// may reports whether c has all of the permissions want. The superuser has all,
// but to execute a file that nobody may.
func may(c *nfsserver.Cred, a *nfsserver.Attr, want uint32) bool {
	if c.UID == 0 {
		return want&nfsserver.MayExec == 0 || a.Type == nfsserver.TypeDir || a.Mode&0o111 != 0
	}
	bits := a.Mode
	switch {
	case c.UID == a.UID:
		bits >>= 6
	case inGroup(c, a.GID):
		bits >>= 3
	}
	return bits&want == want
}

// mayRead: who owns a file may read it, as it might have been opened before its
// mode changed; and who may execute it must read it to do so (RFC 1813 §4.4).
func mayRead(c *nfsserver.Cred, a *nfsserver.Attr) bool {
	return may(c, a, nfsserver.MayRead) || c.UID == a.UID || may(c, a, nfsserver.MayExec)
}

// mayWrite: as for mayRead.
func mayWrite(c *nfsserver.Cred, a *nfsserver.Attr) bool {
	return may(c, a, nfsserver.MayWrite) || c.UID == a.UID
}

// check is may for what has a lock of its own.
func (n *inode) check(c *nfsserver.Cred, want uint32) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !may(c, &n.attr, want) {
		return syscall.EACCES
	}
	return nil
}

// Access returns those of the permissions want that c has.
func (f *FS) Access(c nfsserver.Cred, r nfsserver.Ref, want uint32) (have uint32, err error) {
	n, err := f.get(&r)
	if err != nil {
		return 0, err
	}
	for bit := uint32(1); bit <= nfsserver.MayRead; bit <<= 1 {
		if want&bit != 0 && n.check(&c, bit) == nil {
			have |= bit
		}
	}
	return have, nil
}

// mayUnlink checks that c may remove the name of n from directory d: it must be
// writable, and a sticky one lets only owners.
func mayUnlink(c *nfsserver.Cred, d, n *inode) error {
	if err := d.check(c, nfsserver.MayWrite|nfsserver.MayExec); err != nil {
		return err
	}
	dir, a := d.getattr(), n.getattr()
	if dir.Mode&nfsserver.ModeSticky != 0 && !owns(c, &dir) && !owns(c, &a) {
		return syscall.EPERM
	}
	return nil
}

// maySet checks a change of attributes a to those of s.
func maySet(c *nfsserver.Cred, a *nfsserver.Attr, s *nfsserver.SetAttr) error {
	if c.UID == 0 {
		return nil
	}
	owner := c.UID == a.UID
	switch {
	case s.Has(nfsserver.SetUID) && (!owner || s.UID != a.UID):
		return syscall.EPERM
	case s.Has(nfsserver.SetGID) && (!owner || s.GID != a.GID && !inGroup(c, s.GID)):
		return syscall.EPERM
	case s.Has(nfsserver.SetMode|nfsserver.SetAtime|nfsserver.SetMtime) && !owner:
		return syscall.EPERM
	case s.Has(nfsserver.SetSize|nfsserver.SetAtimeNow|nfsserver.SetMtimeNow) && !mayWrite(c, a):
		return syscall.EACCES
	}
	return nil
}

// dropsSetgid reports whether a change by c removes the set-group-id bit: from
// what its group may execute, and from what is of a group that is not c's.
func dropsSetgid(c *nfsserver.Cred, a *nfsserver.Attr) bool {
	return a.Mode&0o010 != 0 || !hasGroup(c, a.GID)
}

// written is the mode of a file after c changed its content: a program that runs
// as its owner must not become another program.
func written(c *nfsserver.Cred, a *nfsserver.Attr) uint32 {
	if c.UID == 0 {
		return a.Mode
	}
	mode := a.Mode &^ nfsserver.ModeSetuid
	if dropsSetgid(c, a) {
		mode &^= nfsserver.ModeSetgid
	}
	return mode
}

// chowned is the mode of an object after c gave it to group gid: set-id bits do
// not pass to another owner (POSIX chown; as in Linux, the superuser is no exception).
func chowned(c *nfsserver.Cred, a *nfsserver.Attr, gid uint32) uint32 {
	if a.Type == nfsserver.TypeDir {
		return a.Mode
	}
	mode := a.Mode &^ nfsserver.ModeSetuid
	if dropsSetgid(c, a) || mode != a.Mode && !hasGroup(c, gid) {
		mode &^= nfsserver.ModeSetgid
	}
	return mode
}

// chmoded is mode as c may give it to an object of group gid.
func chmoded(c *nfsserver.Cred, mode, gid uint32) uint32 {
	if !hasGroup(c, gid) {
		mode &^= nfsserver.ModeSetgid
	}
	return mode & nfsserver.ModeAll
}

// newborn is the attributes of a new object of type t that c makes in a directory
// with attributes dir.
func newborn(c *nfsserver.Cred, dir *nfsserver.Attr, t nfsserver.FileType, s *nfsserver.SetAttr) (nfsserver.SetAttr, error) {
	set := *s
	if c.UID != 0 && s.Has(nfsserver.SetUID) && s.UID != c.UID {
		return set, syscall.EPERM
	}
	if !s.Has(nfsserver.SetMode) {
		set.Mode = 0o600
		if t == nfsserver.TypeDir {
			set.Mode = 0o700
		}
	}
	const program = nfsserver.ModeSetgid | 0o010
	gid := c.GID
	if dir.Mode&nfsserver.ModeSetgid != 0 {
		gid = dir.GID
		switch {
		case t == nfsserver.TypeDir:
			set.Mode |= nfsserver.ModeSetgid
		case set.Mode&program == program && !hasGroup(c, gid):
			set.Mode &^= nfsserver.ModeSetgid
		}
	}
	if !s.Has(nfsserver.SetUID) {
		set.UID = c.UID
	}
	switch {
	case !s.Has(nfsserver.SetGID):
		set.GID = gid
	case c.UID != 0 && s.GID != gid && !inGroup(c, s.GID):
		return set, syscall.EPERM
	}
	set.Mask |= nfsserver.SetMode | nfsserver.SetUID | nfsserver.SetGID
	return set, nil
}
