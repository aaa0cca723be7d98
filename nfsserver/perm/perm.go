// Package perm checks permissions as a kernel does, by mode, owner, group and ACL. It is for an FS
// without a kernel's checks.
package perm

import (
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/posixacl"
)

// An Object has the attributes on which permissions depend. ACL is the access ACL; with an empty
// one the mode alone decides.
type Object struct {
	*nfsserver.Attr
	ACL posixacl.ACL
}

// inGroup reports whether c belongs to group g.
func inGroup(c *nfsserver.Cred, g uint32) bool { return c.GID == g || slices.Contains(c.GIDs, g) }

// hasGroup reports whether c may set the set-group-id bit of objects in group g.
func hasGroup(c *nfsserver.Cred, g uint32) bool { return c.UID == 0 || inGroup(c, g) }

// Owns reports whether c has an owner's rights.
func Owns(c *nfsserver.Cred, a *nfsserver.Attr) bool { return c.UID == 0 || c.UID == a.UID }

// May reports whether c has all permissions in want (nfsserver.MayRead …). The superuser has all,
// except to execute a file without any execute bit.
func (o Object) May(c *nfsserver.Cred, want uint32) bool {
	if c.UID == 0 {
		return want&nfsserver.MayExec == 0 || o.Type == nfsserver.TypeDir || o.Mode&0o111 != 0
	}
	if len(o.ACL) > 0 && c.UID != o.UID {
		return byACL(c, o.Attr, o.ACL, want)
	}
	bits := o.Mode
	switch {
	case c.UID == o.UID:
		bits >>= 6
	case inGroup(c, o.GID):
		bits >>= 3
	}
	return bits&want == want
}

// byACL is May for a caller other than the owner, in the order of acl(5). An entry for the user
// decides. Otherwise any entry for one of its groups that grants all of want decides; if such
// entries exist and none does, the result is false. Otherwise the entry for others decides.
func byACL(c *nfsserver.Cred, a *nfsserver.Attr, acl posixacl.ACL, want uint32) bool {
	mask := uint32(7)
	for _, e := range acl {
		if e.Tag == posixacl.Mask {
			mask = uint32(e.Perm)
		}
	}
	grouped := false
	for _, e := range acl { // sorted by tag: users, groups, others
		perm := uint32(e.Perm)
		switch e.Tag {
		case posixacl.User:
			if e.ID == c.UID {
				return perm&mask&want == want
			}
		case posixacl.GroupObj, posixacl.Group:
			gid := e.ID
			if e.Tag == posixacl.GroupObj {
				gid = a.GID
			}
			if !inGroup(c, gid) {
				continue
			}
			if perm&mask&want == want {
				return true
			}
			grouped = true
		case posixacl.Other:
			return !grouped && perm&want == want
		}
	}
	return false
}

// Check is May with an error: EACCES.
func (o Object) Check(c *nfsserver.Cred, want uint32) error {
	if !o.May(c, want) {
		return syscall.EACCES
	}
	return nil
}

// MayRead reports whether c may read a file. Its owner may, because it might have opened the file
// before the mode changed. A user with execute permission may, because the client has to read a
// program to run it (RFC 1813 §4.4).
func (o Object) MayRead(c *nfsserver.Cred) bool {
	return o.May(c, nfsserver.MayRead) || c.UID == o.UID || o.May(c, nfsserver.MayExec)
}

// MayWrite reports whether c may write a file, or owns it.
func (o Object) MayWrite(c *nfsserver.Cred) bool {
	return o.May(c, nfsserver.MayWrite) || c.UID == o.UID
}

// MayUnlink checks that c may remove the name of an object with attributes a from directory o. The
// directory must be writable; in a sticky one only the owner of either may do it.
func (o Object) MayUnlink(c *nfsserver.Cred, a *nfsserver.Attr) error {
	if err := o.Check(c, nfsserver.MayWrite|nfsserver.MayExec); err != nil {
		return err
	}
	if o.Mode&nfsserver.ModeSticky != 0 && !Owns(c, o.Attr) && !Owns(c, a) {
		return syscall.EPERM
	}
	return nil
}

// MaySet checks a change to the attributes in s: EPERM or EACCES.
func (o Object) MaySet(c *nfsserver.Cred, s *nfsserver.SetAttr) error {
	if c.UID == 0 {
		return nil
	}
	owner := c.UID == o.UID
	switch {
	case s.Has(nfsserver.SetUID) && (!owner || s.UID != o.UID):
		return syscall.EPERM
	case s.Has(nfsserver.SetGID) && (!owner || s.GID != o.GID && !inGroup(c, s.GID)):
		return syscall.EPERM
	case s.Has(nfsserver.SetMode|nfsserver.SetAtime|nfsserver.SetMtime) && !owner:
		return syscall.EPERM
	case s.Has(nfsserver.SetSize|nfsserver.SetAtimeNow|nfsserver.SetMtimeNow) && !o.MayWrite(c):
		return syscall.EACCES
	}
	return nil
}
