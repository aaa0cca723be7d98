// The model: entries, their rules, and conversion to and from modes.

package posixacl

import (
	"errors"
	"slices"
)

// A Tag is the kind of user or group an entry applies to; the values are the attribute's and
// NFSACL's.
type Tag uint16

// The tags, in list order.
const (
	UserObj  Tag = 0x01 // the owner
	User     Tag = 0x02 // the user Entry.ID
	GroupObj Tag = 0x04 // the owning group
	Group    Tag = 0x08 // the group Entry.ID
	Mask     Tag = 0x10 // limits User, GroupObj and Group
	Other    Tag = 0x20 // all others
)

func (t Tag) String() string {
	switch t {
	case UserObj:
		return "USER_OBJ"
	case User:
		return "USER"
	case GroupObj:
		return "GROUP_OBJ"
	case Group:
		return "GROUP"
	case Mask:
		return "MASK"
	case Other:
		return "OTHER"
	}
	return "unknown tag"
}

// NoID is the ID in entries that name no user or group. NoID is never a valid ID.
const NoID = 0xffffffff

// Execute is the permission to execute a file, or search a directory.
const Execute = 1

// permAll is read, write and execute: 4, 2 and 1, as in a mode.
const permAll = 7

// MaxEntries is the longest list that Linux sends and accepts by NFSACL. File systems may store
// fewer entries: ext4 stores at most a block.
const MaxEntries = 1024

// An Entry grants permissions.
type Entry struct {
	Tag  Tag
	Perm uint16 // read 4, write 2, execute 1
	ID   uint32 // for User and Group; otherwise NoID
}

// An ACL is a list of entries. An empty list means no ACL.
type ACL []Entry

// ErrInvalid means that a list breaks the rules (EINVAL in Linux).
var ErrInvalid = errors.New("invalid ACL")

// FromMode returns the list equivalent to a mode's permission bits.
func FromMode(mode uint32) ACL {
	return ACL{
		{UserObj, uint16(mode>>6) & permAll, NoID},
		{GroupObj, uint16(mode>>3) & permAll, NoID},
		{Other, uint16(mode) & permAll, NoID},
	}
}

// Mode returns the nine permission bits of an object with access ACL a. The group bits are the
// mask's, if a has a mask.
func (a ACL) Mode() uint32 {
	var owner, group, mask, other uint16
	masked := false
	for _, e := range a {
		switch e.Tag {
		case UserObj:
			owner = e.Perm
		case GroupObj:
			group = e.Perm
		case Mask:
			mask, masked = e.Perm, true
		case Other:
			other = e.Perm
		}
	}
	if masked {
		group = mask
	}
	return uint32(owner&permAll)<<6 | uint32(group&permAll)<<3 | uint32(other&permAll)
}

// IsMode reports whether a is equivalent to a mode: then the kernel stores only the mode, and no
// access ACL. An ACL with a mask, even a redundant mask, is not equivalent.
func (a ACL) IsMode() bool {
	return !slices.ContainsFunc(a, func(e Entry) bool {
		return e.Tag == User || e.Tag == Group || e.Tag == Mask
	})
}

// Validate returns ErrInvalid unless the kernel would accept a; the empty list is valid. Validate
// does not check MaxEntries, a protocol limit.
func (a ACL) Validate() error {
	if len(a) == 0 {
		return nil
	}
	next := UserObj // the next expected tag
	named, done := false, false
	for _, e := range a {
		if done || e.Perm&^permAll != 0 {
			return ErrInvalid
		}
		switch {
		case e.Tag == UserObj && next == UserObj:
			next = User
		case e.Tag == User && next == User && e.ID != NoID:
			named = true
		case e.Tag == GroupObj && next == User:
			next = Group
		case e.Tag == Group && next == Group && e.ID != NoID:
			named = true
		case e.Tag == Mask && next == Group:
			next = Other
		case e.Tag == Other && (next == Other || next == Group && !named):
			done = true
		default:
			return ErrInvalid
		}
	}
	if !done {
		return ErrInvalid
	}
	return nil
}
