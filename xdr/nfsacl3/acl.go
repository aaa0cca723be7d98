// ACL entries and lists, and the peers' rules for both (secattr).

package nfsacl3

import (
	"cmp"
	"slices"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// An Entry is an ACL entry (aclent).
type Entry struct {
	Tag uint32 // a Tag constant
	// ID is the user's or group's, for TagUser and TagGroup. For TagUserObj and TagGroupObj peers
	// set the object's owner and group.
	ID   uint32
	Perm uint32 // read 4, write 2, execute 1
}

const entrySize = 12

// An ACLs has an object's lists (secattr). A message includes a list if its Mask bit is set. A
// count precedes each list in any case: the number of entries, or, without a list, the answer to
// MaskAccessCount or MaskDefaultCount.
//
// Solaris does not support an ACL with three entries. So an ACL with TagUserObj, TagGroupObj and
// TagOther travels with an additional TagMask equal to TagGroupObj. EncodeXDR adds this TagMask,
// and DecodeXDR removes it from a list of four.
type ACLs struct {
	Mask            uint32
	Access, Default []Entry
	// AccessCount and DefaultCount are the counts on the wire. EncodeXDR uses a count only without
	// the list.
	AccessCount, DefaultCount uint32
}

// EncodeXDR appends mask and lists. Entries must be in tag order.
func (a *ACLs) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(a.Mask)
	encodeList(e, a.Mask&MaskAccess != 0, a.Access, a.AccessCount, 0)
	encodeList(e, a.Mask&MaskDefault != 0, a.Default, a.DefaultCount, tagDefault)
}

// encodeList appends a count and the array of entries, which is empty if the list is not
// included.
func encodeList(e *xdr.Encoder, travels bool, list []Entry, count, flag uint32) {
	if !travels {
		e.Uint32(count)
		e.Uint32(0)
		return
	}
	n := Count(list)
	e.Uint32(n)
	e.Uint32(n)
	for i, t := range list {
		e.Uint32(t.Tag | flag)
		e.Uint32(t.ID)
		e.Uint32(t.Perm)
		if i == 1 && minimal(list) {
			e.Uint32(TagMask | flag)
			e.Uint32(0)
			e.Uint32(t.Perm)
		}
	}
}

// Count returns a list's number of entries on the wire.
func Count(list []Entry) uint32 {
	if minimal(list) {
		return 4
	}
	return uint32(len(list))
}

// minimal reports whether the list is equivalent to a mode.
func minimal(list []Entry) bool {
	return len(list) == 3 && list[0].Tag == TagUserObj && list[1].Tag == TagGroupObj && list[2].Tag == TagOther
}

// DecodeXDR reads the mask and the lists. It returns included lists in tag order, TagUser and
// TagGroup entries by ID, and skips others. More than MaxEntries fail with xdr.ErrLimit. Unknown
// Mask bits, a wrong count, unknown tags, permissions beyond 7 and the ID -1 fail with
// xdr.ErrValue. The file system checks whether the entries form an ACL.
func (a *ACLs) DecodeXDR(d *xdr.Decoder) {
	if a.Mask = d.Uint32(); a.Mask&^MaskAll != 0 {
		d.Fail(xdr.ErrValue)
	}
	a.Access, a.AccessCount = decodeList(d, a.Mask&MaskAccess != 0)
	a.Default, a.DefaultCount = decodeList(d, a.Mask&MaskDefault != 0)
}

// decodeList reads a count and an array of entries, and returns the array if the list is
// included.
func decodeList(d *xdr.Decoder, travels bool) (list []Entry, count uint32) {
	count = d.Uint32()
	n := d.Uint32()
	switch {
	case count > MaxEntries || n > MaxEntries:
		d.Fail(xdr.ErrLimit)
	case travels && n != count:
		d.Fail(xdr.ErrValue)
	}
	if d.Err() != nil {
		return nil, 0
	}
	if !travels {
		d.Fixed(int(n) * entrySize)
		return nil, count
	}
	if n > 0 {
		list = make([]Entry, 0, min(int(n), d.Remaining()/entrySize))
	}
	for range n {
		t := Entry{Tag: d.Uint32() &^ tagDefault, ID: d.Uint32(), Perm: d.Uint32()}
		if !t.check() {
			d.Fail(xdr.ErrValue)
		}
		if d.Err() != nil {
			return nil, 0
		}
		list = append(list, t)
	}
	slices.SortStableFunc(list, compare)
	return withoutMask(list), count
}

// check reports whether the entry is valid. Solaris sets mask bits beyond 7; check clears them.
func (t *Entry) check() bool {
	switch t.Tag {
	case TagUser, TagGroup:
		return t.ID != noID && t.Perm <= 7
	case TagMask:
		t.Perm &= 7
		return true
	case TagUserObj, TagGroupObj, TagOther:
		return t.Perm <= 7
	}
	return false
}

// compare orders entries by tag, and by ID for users and groups.
func compare(a, b Entry) int {
	if a.Tag != b.Tag || a.Tag != TagUser && a.Tag != TagGroup {
		return cmp.Compare(a.Tag, b.Tag)
	}
	return cmp.Compare(a.ID, b.ID)
}

// withoutMask removes the mask from a sorted list of four that matches its TagGroupObj.
func withoutMask(list []Entry) []Entry {
	if len(list) == 4 && list[1].Tag == TagGroupObj && list[2].Tag == TagMask && list[1].Perm == list[2].Perm {
		return slices.Delete(list, 2, 3)
	}
	return list
}
