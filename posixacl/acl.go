// The model: entries, their rules, and what a mode says of them.

package posixacl

import (
	"errors"
	"slices"
)

// A Tag says whom an entry is about; the values are those of the attribute and of NFSACL.
type Tag uint16

// The tags, in the order in which a list has them.
const (
	UserObj  Tag = 0x01 // the owner
	User     Tag = 0x02 // the user Entry.ID
	GroupObj Tag = 0x04 // the owning group
	Group    Tag = 0x08 // the group Entry.ID
	Mask     Tag = 0x10 // the most that User, GroupObj and Group give
	Other    Tag = 0x20 // everybody else
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

// NoID is the ID of entries that name nobody. It is no user's and no group's.
const NoID = 0xffffffff

// Execute is the permission to execute a file, or to search a directory.
const Execute = 1

// permAll is read, write and execute: 4, 2 and 1, as in a mode.
const permAll = 7

// MaxEntries is the most entries of one list that Linux sends and takes by NFSACL. What
// a file system stores can be less: ext4 keeps what fits a block.
const MaxEntries = 1024

// An Entry gives permissions to some callers.
type Entry struct {
	Tag  Tag
	Perm uint16 // read 4, write 2, execute 1
	ID   uint32 // of User and Group; NoID with the other tags
}

// An ACL is a list of entries. The empty one says that there is none.
type ACL []Entry

// ErrInvalid is the error of a list that breaks the rules (EINVAL in Linux).
var ErrInvalid = errors.New("invalid ACL")

// FromMode is the list that says what the permission bits of a mode say.
func FromMode(mode uint32) ACL {
	return ACL{
		{UserObj, uint16(mode>>6) & permAll, NoID},
		{GroupObj, uint16(mode>>3) & permAll, NoID},
		{Other, uint16(mode) & permAll, NoID},
	}
}

// Mode is the nine permission bits of an object with the access ACL a: those of the
// group are the mask, if there is one.
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

// IsMode reports whether a says no more than a mode does: then the kernel keeps the
// mode alone, and no access ACL. A mask, even a needless one, is more.
func (a ACL) IsMode() bool {
	return !slices.ContainsFunc(a, func(e Entry) bool {
		return e.Tag == User || e.Tag == Group || e.Tag == Mask
	})
}

// Validate fails with ErrInvalid unless the kernel would take a; the empty list is valid.
// It does not check MaxEntries, which is a limit of the protocol.
func (a ACL) Validate() error {
	if len(a) == 0 {
		return nil
	}
	next := UserObj // the tag up to which the list has come
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
