// Entries and lists of them, with the rules that peers have for both (secattr).

package nfsacl3

import (
	"cmp"
	"slices"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// An Entry is one line of an ACL (aclent).
type Entry struct {
	Tag  uint32 // one of the Tags
	ID   uint32 // of TagUser and TagGroup; peers put the object's owner and group into those of TagUserObj and TagGroupObj
	Perm uint32 // read 4, write 2, execute 1
}

const entrySize = 12

// An ACLs is the lists of an object (secattr). A list travels where its bit of Mask is set. In a
// message each list has a count before it, which travels always: with entries it is their
// number, alone it answers MaskAccessCount or MaskDefaultCount.
//
// Solaris knows no ACL of three entries, so one of TagUserObj, TagGroupObj and TagOther
// travels with a TagMask that allows what TagGroupObj does. EncodeXDR adds it, and DecodeXDR
// takes it out of a list of four.
type ACLs struct {
	Mask            uint32
	Access, Default []Entry
	// AccessCount and DefaultCount are the counts on the wire. EncodeXDR takes them only
	// where the list does not travel.
	AccessCount, DefaultCount uint32
}

// EncodeXDR appends mask and lists. Entries must be in the order of their tags.
func (a *ACLs) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(a.Mask)
	encodeList(e, a.Mask&MaskAccess != 0, a.Access, a.AccessCount, 0)
	encodeList(e, a.Mask&MaskDefault != 0, a.Default, a.DefaultCount, tagDefault)
}

// encodeList appends a count and the array of entries, which is empty where the list does not
// travel.
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

// Count returns how many entries a list has on the wire.
func Count(list []Entry) uint32 {
	if minimal(list) {
		return 4
	}
	return uint32(len(list))
}

// minimal reports whether the list says what a mode says.
func minimal(list []Entry) bool {
	return len(list) == 3 && list[0].Tag == TagUserObj && list[1].Tag == TagGroupObj && list[2].Tag == TagOther
}

// DecodeXDR reads mask and lists. Lists that travel come out in the order of tags, those of TagUser
// and TagGroup by their ID; others are passed over. More than MaxEntries fail with xdr.ErrLimit;
// unknown bits of Mask, a count that is not the number of entries, unknown tags, permissions beyond
// 7 and the ID -1 with xdr.ErrValue. Whether entries make an ACL together is left to the file
// system.
func (a *ACLs) DecodeXDR(d *xdr.Decoder) {
	if a.Mask = d.Uint32(); a.Mask&^MaskAll != 0 {
		d.Fail(xdr.ErrValue)
	}
	a.Access, a.AccessCount = decodeList(d, a.Mask&MaskAccess != 0)
	a.Default, a.DefaultCount = decodeList(d, a.Mask&MaskDefault != 0)
}

// decodeList reads a count and an array of entries, which it returns where the list travels.
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

// check reports whether the entry is one. Solaris sets bits beyond 7 in a mask, which it clears.
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

// compare orders entries by tag, and by ID where that counts.
func compare(a, b Entry) int {
	if a.Tag != b.Tag || a.Tag != TagUser && a.Tag != TagGroup {
		return cmp.Compare(a.Tag, b.Tag)
	}
	return cmp.Compare(a.ID, b.ID)
}

// withoutMask takes the mask out of a sorted list of four that says no more than its TagGroupObj.
func withoutMask(list []Entry) []Entry {
	if len(list) == 4 && list[1].Tag == TagGroupObj && list[2].Tag == TagMask && list[1].Perm == list[2].Perm {
		return slices.Delete(list, 2, 3)
	}
	return list
}
