// Golden bytes, round trips, truncations, refusals and arbitrary bytes for the NFSACL types.

package nfsacl3

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/internal/xdrtest"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

var fh, _ = nfs3.MakeFH([]byte{1, 2, 3, 4, 5})

const fhHex = "00000005" + "0102030405000000"

// A file of user 1000 and group 100, readable by user 1001, as made by `setfacl -m u:1001:r`; a
// directory's default ACL with three entries.
var (
	access   = []Entry{{TagUserObj, 1000, 6}, {TagUser, 1001, 4}, {TagGroupObj, 100, 0}, {TagMask, 0, 4}, {TagOther, 0, 0}}
	default3 = []Entry{{TagUserObj, 1000, 7}, {TagGroupObj, 100, 5}, {TagOther, 0, 1}}
)

const (
	accessHex = "00000005" + "00000005" + "00000001" + "000003e8" + "00000006" + "00000002" + "000003e9" + "00000004" +
		"00000004" + "00000064" + "00000000" + "00000010" + "00000000" + "00000004" + "00000020" + "00000000" + "00000000"
	// Three entries travel as four: the mask equals the owning group's entry.
	defaultHex = "00000004" + "00000004" + "00001001" + "000003e8" + "00000007" + "00001004" + "00000064" + "00000005" +
		"00001010" + "00000000" + "00000005" + "00001020" + "00000000" + "00000001"
	noneHex = "00000000" + "00000000"
)

var golden = []xdrtest.Golden{
	{"GETACL", &GetACLArgs{fh, MaskAll}, fhHex + "0000000f"},
	{"GETACL result", &GetACLRes{ACLs: ACLs{MaskAll, access, default3, 5, 4}},
		"00000000" + "00000000" + "0000000f" + accessHex + defaultHex},
	{"GETACL counts", &GetACLRes{ACLs: ACLs{Mask: MaskAccessCount | MaskDefaultCount, AccessCount: 5}},
		"00000000" + "00000000" + "0000000a" + "00000005" + "00000000" + noneHex},
	{"GETACL refused", &GetACLRes{Status: nfs3.ErrNotSupp}, "00002714" + "00000000"},
	{"SETACL", &SetACLArgs{fh, ACLs{Mask: MaskAccess, Access: access, AccessCount: 5}}, fhHex + "00000001" + accessHex + noneHex},
	{"SETACL default", &SetACLArgs{fh, ACLs{Mask: MaskDefault, Default: default3, DefaultCount: 4}}, fhHex + "00000004" + noneHex + defaultHex},
	{"SETACL none", &SetACLArgs{fh, ACLs{Mask: MaskAccess | MaskDefault}}, fhHex + "00000005" + noneHex + noneHex},
	{"SETACL result", &SetACLRes{Status: nfs3.ErrROFS}, "0000001e" + "00000000"},
}

func TestGolden(t *testing.T) { xdrtest.Check(t, golden) }

// list encodes a list with arbitrary words.
func list(count, length uint32, entries ...Entry) []byte {
	e := xdr.NewEncoder(nil)
	e.Uint32(MaskAccess)
	e.Uint32(count)
	e.Uint32(length)
	for _, t := range entries {
		e.Uint32(t.Tag)
		e.Uint32(t.ID)
		e.Uint32(t.Perm)
	}
	e.Uint64(0) // no default ACL
	return e.Bytes()
}

func decode(b []byte) (ACLs, error) {
	var a ACLs
	d := xdr.NewDecoder(b)
	a.DecodeXDR(d)
	return a, d.Err()
}

// TestRefused: an invalid list is refused by its count, before allocation.
func TestRefused(t *testing.T) {
	full := slices.Repeat([]Entry{{TagUser, 7, 4}}, MaxEntries+1)
	for name, b := range map[string][]byte{
		"4 billion entries":         list(1<<32-1, 1<<32-1),
		"4 billion counted":         list(1<<32-1, 0),
		"one too many":              list(MaxEntries+1, MaxEntries+1, full...),
		"count below the length":    list(1, 2, full[:2]...),
		"count above the length":    list(3, 2, full[:2]...),
		"count alone":               list(5, 0),
		"no tag":                    list(1, 1, Entry{0, 0, 4}),
		"two tags":                  list(1, 1, Entry{TagUser | TagGroup, 7, 4}),
		"unknown tag":               list(1, 1, Entry{0x40, 7, 4}),
		"permission beyond 7":       list(1, 1, Entry{TagUser, 7, 8}),
		"owner's beyond 7":          list(1, 1, Entry{TagUserObj, 7, 8}),
		"user -1":                   list(1, 1, Entry{TagUser, noID, 4}),
		"group -1":                  list(1, 1, Entry{TagGroup, noID, 4}),
		"unknown bit of the mask":   append([]byte{0, 0, 0, 16}, make([]byte, 16)...),
		"4 billion that are unused": append([]byte{0, 0, 0, 0}, bytes.Repeat([]byte{255}, 16)...),
	} {
		if _, err := decode(b); !errors.Is(err, xdr.ErrLimit) && !errors.Is(err, xdr.ErrValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if a, err := decode(list(MaxEntries, MaxEntries, full[:MaxEntries]...)); err != nil || len(a.Access) != MaxEntries {
		t.Errorf("as many as may be: %d, %v", len(a.Access), err)
	}
}

// TestOrder: entries are sorted, regardless of order and flags; a redundant mask in a list of
// four is removed, any other stays.
func TestOrder(t *testing.T) {
	four := []Entry{{TagOther, 0, 1}, {TagMask, 0, 0xfd}, {TagGroupObj, 1, 5}, {TagUserObj | tagDefault, noID, 7}}
	for _, c := range []struct{ in, want []Entry }{
		{four, []Entry{{TagUserObj, noID, 7}, {TagGroupObj, 1, 5}, {TagOther, 0, 1}}},
		{slices.Concat([]Entry{{TagUser, 9, 1}, {TagUser, 8, 2}}, four),
			[]Entry{{TagUserObj, noID, 7}, {TagUser, 8, 2}, {TagUser, 9, 1}, {TagGroupObj, 1, 5}, {TagMask, 0, 5}, {TagOther, 0, 1}}},
		{[]Entry{{TagUserObj, 0, 7}, {TagGroupObj, 0, 5}, {TagMask, 0, 4}, {TagOther, 0, 1}},
			[]Entry{{TagUserObj, 0, 7}, {TagGroupObj, 0, 5}, {TagMask, 0, 4}, {TagOther, 0, 1}}},
	} {
		n := uint32(len(c.in))
		if a, err := decode(list(n, n, c.in...)); err != nil || !slices.Equal(a.Access, c.want) {
			t.Errorf("%v: %v, %v, want %v", c.in, a.Access, err, c.want)
		}
	}
}

// The largest result is MaxReply bytes long.
func TestMaxReply(t *testing.T) {
	r := GetACLRes{ACLs: ACLs{Mask: MaskAll, Access: make([]Entry, MaxEntries), Default: make([]Entry, MaxEntries)}}
	r.Attr.Present, r.Attr.Attr.Type = true, nfs3.TypeDir
	if n := len(xdrtest.Encode(&r)); n != MaxReply {
		t.Errorf("%d bytes, want %d", n, MaxReply)
	}
}

func FuzzMessages(f *testing.F) { xdrtest.Fuzz(f, golden) }
