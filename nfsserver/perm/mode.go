// Modes after a change: set-id bits, and the attributes of new objects.

package perm

import (
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// dropsSetgid reports whether a change by c clears an object's set-group-id bit: it does if the
// group may execute the object, or if c is not in the group.
func dropsSetgid(c *nfsserver.Cred, a *nfsserver.Attr) bool {
	return a.Mode&0o010 != 0 || !hasGroup(c, a.GID)
}

// Written returns the mode of a file after c changed its content: a program that runs as its owner
// MUST NOT become another program.
func Written(c *nfsserver.Cred, a *nfsserver.Attr) uint32 {
	if c.UID == 0 {
		return a.Mode
	}
	mode := a.Mode &^ nfsserver.ModeSetuid
	if dropsSetgid(c, a) {
		mode &^= nfsserver.ModeSetgid
	}
	return mode
}

// chowned returns the mode of an object after c gave it to group gid. Set-id bits do not pass to
// another owner (POSIX chown). As in Linux, this includes changes by the superuser.
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

// chmoded returns mode, as far as c may set it on an object of group gid.
func chmoded(c *nfsserver.Cred, mode, gid uint32) uint32 {
	if !hasGroup(c, gid) {
		mode &^= nfsserver.ModeSetgid
	}
	return mode & nfsserver.ModeAll
}

// SettleMode adds to s the mode that an object with attributes a has after c set s. The caller has
// checked that c may set s.
func SettleMode(c *nfsserver.Cred, a nfsserver.Attr, s *nfsserver.SetAttr) {
	gid := a.GID
	if s.Has(nfsserver.SetGID) {
		gid = s.GID
	}
	if s.Has(nfsserver.SetUID | nfsserver.SetGID) {
		a.Mode = chowned(c, &a, gid)
		a.GID = gid
	}
	if s.Has(nfsserver.SetSize) {
		a.Mode = Written(c, &a)
	}
	if s.Has(nfsserver.SetMode) {
		a.Mode = chmoded(c, s.Mode, gid)
	}
	s.Mask, s.Mode = s.Mask|nfsserver.SetMode, a.Mode
}

// Newborn returns the attributes of a new object of type t, which c makes in a directory with
// attributes dir. They include mode, owner and group. EPERM: c cannot give it that owner or group.
func Newborn(c *nfsserver.Cred, dir *nfsserver.Attr, t nfsserver.FileType, s *nfsserver.SetAttr) (nfsserver.SetAttr, error) {
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
