// Attributes written by setfacl, the kernel's verdicts, truncations, round trips, and the fuzz
// target.

package posixacl

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// golden are attributes shown by getfattr after setfacl.
var golden = []struct {
	name, bytes string
	acl         ACL
	mode        uint32
}{
	// chmod 640; setfacl -m u:1000:rw,g:100:r,u:0:---
	{"access", "0200000001000600ffffffff020000000000000002000600e803000004000400ffffffff080004006400000010000600ffffffff20000000ffffffff",
		ACL{{UserObj, 6, NoID}, {User, 0, 0}, {User, 6, 1000}, {GroupObj, 4, NoID}, {Group, 4, 100}, {Mask, 6, NoID}, {Other, 0, NoID}}, 0o660},
	// mkdir, umask 022; setfacl -d -m u:1000:rwx,g:4294967294:rx
	{"default", "0200000001000700ffffffff02000700e803000004000500ffffffff08000500feffffff10000700ffffffff20000500ffffffff",
		ACL{{UserObj, 7, NoID}, {User, 7, 1000}, {GroupObj, 5, NoID}, {Group, 5, 4294967294}, {Mask, 7, NoID}, {Other, 5, NoID}}, 0o775},
}

func TestGoldenAttributes(t *testing.T) {
	for _, g := range golden {
		b, _ := hex.DecodeString(g.bytes)
		acl, err := Parse(b)
		if err != nil || !slices.Equal(acl, g.acl) {
			t.Errorf("%s: %v, %v; want %v", g.name, acl, err, g.acl)
		}
		if got := g.acl.Append(nil); !bytes.Equal(got, b) || len(got) != Size(len(g.acl)) {
			t.Errorf("%s: %x, want %x", g.name, got, b)
		}
		if acl.Mode() != g.mode || acl.IsMode() {
			t.Errorf("%s: mode %o, alone %v", g.name, acl.Mode(), acl.IsMode())
		}
		for n := 1; n < len(b); n++ {
			if _, err := Parse(b[:n]); !errors.Is(err, ErrInvalid) && n != headerSize {
				t.Errorf("%s: %d bytes of it: %v", g.name, n, err)
			}
		}
	}
}

// list returns an attribute with the given version and entries.
func list(version byte, entries ...Entry) []byte {
	b := ACL(entries).Append(nil)
	b[0] = version
	return b
}

var (
	owner = Entry{UserObj, 6, NoID}
	group = Entry{GroupObj, 4, NoID}
	mask  = Entry{Mask, 6, NoID}
	other = Entry{Other, 0, NoID}
	user5 = Entry{User, 6, 5}
)

// verdicts are attributes with the results of Linux's setxattr(2): nil, EINVAL or EOPNOTSUPP.
var verdicts = []struct {
	name string
	attr []byte
	err  error
}{
	{"nothing", nil, nil},
	{"part of a header", []byte{2, 0, 0}, ErrInvalid},
	{"no entries", list(2), nil},
	{"version 1", list(1, owner, group, other), ErrVersion},
	{"version 1, no entries", list(1), ErrVersion},
	{"minimal", list(2, owner, group, other), nil},
	{"minimal and a byte", append(list(2, owner, group, other), 0), ErrInvalid},
	{"a needless mask", list(2, owner, group, mask, other), nil},
	{"a user twice", list(2, owner, user5, user5, group, mask, other), nil},
	{"users out of order", list(2, owner, Entry{User, 6, 9}, user5, group, mask, other), nil},
	{"no mask", list(2, owner, user5, group, other), ErrInvalid},
	{"a group and no mask", list(2, owner, group, Entry{Group, 6, 5}, other), ErrInvalid},
	{"permission 8", list(2, owner, Entry{GroupObj, 8, NoID}, other), ErrInvalid},
	{"nobody's id", list(2, owner, Entry{User, 6, NoID}, group, mask, other), ErrInvalid},
	{"nobody's group", list(2, owner, group, Entry{Group, 6, NoID}, mask, other), ErrInvalid},
	{"the group first", list(2, group, owner, other), ErrInvalid},
	{"two owners", list(2, owner, owner, group, other), ErrInvalid},
	{"two owning groups", list(2, owner, group, group, other), ErrInvalid},
	{"two others", list(2, owner, group, other, other), ErrInvalid},
	{"a mask at the end", list(2, owner, user5, group, other, mask), ErrInvalid},
	{"two masks", list(2, owner, user5, group, mask, mask, other), ErrInvalid},
	{"a named group before the owning one", list(2, owner, Entry{Group, 6, 5}, group, mask, other), ErrInvalid},
	{"a user after the owning group", list(2, owner, group, user5, mask, other), ErrInvalid},
	{"two bits in a tag", list(2, owner, Entry{3, 6, 5}, group, mask, other), ErrInvalid},
	{"tag 0", list(2, Entry{}, owner, group, other), ErrInvalid},
	{"a default entry's tag of NFSACL", list(2, owner, Entry{0x1004, 4, NoID}, other), ErrInvalid},
	{"no entry for others", list(2, owner, group), ErrInvalid},
	{"the owner alone", list(2, owner), ErrInvalid},
}

func TestParseDecidesAsKernel(t *testing.T) {
	for _, v := range verdicts {
		if _, err := Parse(v.attr); err != v.err {
			t.Errorf("%s: %v, want %v", v.name, err, v.err)
		}
	}
}

// The kernel agrees with the table above, on a file system with ACLs.
func TestKernelDecidesAsTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o640); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	if err := unix.Setxattr(file, AttrAccess, list(2, owner, user5, group, mask, other), 0); errors.Is(err, unix.EOPNOTSUPP) {
		t.Log("no ACLs on the file system of " + file) // the table is still checked against Parse
		return
	}
	for _, v := range verdicts {
		err := unix.Setxattr(file, AttrAccess, v.attr, 0)
		want := map[error]error{ErrInvalid: unix.EINVAL, ErrVersion: unix.EOPNOTSUPP}[v.err]
		if err != want {
			t.Errorf("%s: the kernel says %v, want %v", v.name, err, want)
		}
		if err != nil {
			continue
		}
		// The kernel stores no ACL equivalent to a mode.
		acl, _ := Parse(v.attr)
		n, err := unix.Getxattr(file, AttrAccess, nil)
		if kept := err == nil && n > 0; kept == acl.IsMode() {
			t.Errorf("%s: kept %v (%v), but is a mode: %v", v.name, kept, err, acl.IsMode())
		}
		st, err := os.Stat(file)
		if err != nil || len(acl) > 0 && uint32(st.Mode().Perm()) != acl.Mode() {
			t.Errorf("%s: mode %v, %v; want %o", v.name, st.Mode(), err, acl.Mode())
		}
	}
}

func TestModeRoundTrip(t *testing.T) {
	for mode := range uint32(0o1000) {
		acl := FromMode(mode | 0o107000)
		if acl.Mode() != mode || !acl.IsMode() || acl.Validate() != nil {
			t.Fatalf("%o: %v", mode, acl)
		}
	}
}

func TestUnusedIDsSayNothing(t *testing.T) {
	b := list(2, owner, group, other)
	b[8], b[9] = 77, 0 // the owner's
	acl, err := Parse(b)
	if err != nil || acl[0].ID != NoID {
		t.Fatal(acl, err)
	}
	acl[0].ID = 77
	if got := acl.Append(nil); got[8] != 0xff {
		t.Fatalf("%x", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, v := range verdicts {
		f.Add(v.attr)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		acl, err := Parse(b)
		if err != nil {
			return
		}
		if err := acl.Validate(); err != nil {
			t.Fatalf("Validate: %v", err)
		}
		again, err := Parse(acl.Append(nil))
		if err != nil || !slices.Equal(again, acl) {
			t.Fatalf("%v, %v; want %v", again, err, acl)
		}
	})
}
