// Single values: handles, statuses, times, directory entry sizes, golden attribute bytes.

package nfs3

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr"
)

func TestFH(t *testing.T) {
	a, err := MakeFH([]byte{1, 2, 3, 4, 5})
	if err != nil || a.Len() != 5 || a.String() != "0102030405" {
		t.Fatalf("%v of %d: %v", a, a.Len(), err)
	}
	b, _ := encode(&a)
	if got := hex.EncodeToString(b); got != "000000050102030405000000" {
		t.Errorf("encoded %s", got)
	}
	var c FH
	c.b = [FHSize]byte{9, 9, 9, 9, 9, 9, 9, 9}
	d := xdr.NewDecoder(b)
	if c.DecodeXDR(d); c != a || d.Err() != nil {
		t.Errorf("a decoded handle differs from the same made: %v, %v", c, d.Err())
	}
	if z, err := MakeFH(nil); err != nil || z != (FH{}) || z == a {
		t.Errorf("handle of length 0: %v, %v", z, err)
	}
	if _, err := MakeFH(make([]byte, 64)); err != nil {
		t.Errorf("MakeFH: %v", err)
	}
	if _, err := MakeFH(make([]byte, 65)); !errors.Is(err, xdr.ErrLimit) {
		t.Errorf("65 bytes: %v", err)
	}
	if d := xdr.NewDecoder([]byte{0, 0, 0, 8, 1}); true {
		if c.DecodeXDR(d); c != (FH{}) || d.Err() == nil {
			t.Errorf("after an error: %v, %v", c, d.Err())
		}
	}
}

func TestStatus(t *testing.T) {
	if ErrStale.Error() != "nfs3: NFS3ERR_STALE" || Status(99).String() != "nfsstat3(99)" {
		t.Errorf("%v, %v", ErrStale, Status(99))
	}
	for got, want := range map[string]string{
		TypeFIFO.String(): "NF3FIFO", FileType(0).String(): "ftype3(0)", FileSync.String(): "FILE_SYNC",
		Exclusive.String(): "EXCLUSIVE", SetToClientTime.String(): "SET_TO_CLIENT_TIME", TimeHow(3).String(): "time_how(3)",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestTime(t *testing.T) {
	for _, c := range []struct {
		t    time.Time
		want Time
	}{
		{time.Unix(0, 0), Time{}}, {time.Unix(1700000000, 123456789), Time{1700000000, 123456789}},
		{time.Unix(1<<32-1, 5), Time{1<<32 - 1, 5}}, {time.Unix(-1, 5), Time{}}, {time.Unix(1<<32, 0), Time{1<<32 - 1, 999999999}},
		{time.Unix(1<<31, 7), Time{1 << 31, 7}},
	} {
		if got := MakeTime(c.t); got != c.want {
			t.Errorf("%v: %v, want %v", c.t, got, c.want)
		}
	}
	if got := (Time{1 << 31, 7}).Time(); !got.Equal(time.Unix(1<<31, 7)) {
		t.Errorf("2038: %v", got)
	}
}

// TestGoldenAttributes: fattr3, wcc_attr and sattr3 have the RFC's layout, field by field (RFC 1813
// §2.5, §2.6).
func TestGoldenAttributes(t *testing.T) {
	a := Fattr{TypeDir, 0o755, 3, 4, 5, 6, 7, Specdata{8, 9}, 10, 11, Time{12, 13}, Time{14, 15}, Time{16, 17}}
	b, _ := encode(&a)
	const want = "00000002" + "000001ed" + "00000003" + "00000004" + "00000005" + "0000000000000006" + "0000000000000007" +
		"00000008" + "00000009" + "000000000000000a" + "000000000000000b" +
		"0000000c" + "0000000d" + "0000000e" + "0000000f" + "00000010" + "00000011"
	if hex.EncodeToString(b) != want || len(b) != fattrSize {
		t.Errorf("fattr3 is\n%x, want\n%s", b, want)
	}
	w := PreOpAttr{true, a.Wcc()}
	if b, _ := encode(&w); hex.EncodeToString(b) != "00000001"+"0000000000000006"+"0000000e0000000f"+"0000001000000011" {
		t.Errorf("pre_op_attr is %x", b)
	}
	s := Sattr{SetUID: true, UID: 7, SetSize: true, Size: 8, AtimeHow: SetToServerTime, MtimeHow: SetToClientTime, Mtime: Time{1, 2}}
	if b, _ := encode(&s); hex.EncodeToString(b) != "00000000"+"0000000100000007"+"00000000"+"000000010000000000000008"+
		"00000001"+"00000002"+"0000000100000002" {
		t.Errorf("sattr3 is %x", b)
	}
}

// TestEntrySizes: a directory written entry by entry equals the whole encoded result, with the
// announced size.
func TestEntrySizes(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 200 {
		plain, plus := &ReaddirRes{}, &ReaddirplusRes{}
		fill(r, plain)
		fill(r, plus)
		plain.Status, plus.Status = OK, OK
		var e xdr.Encoder
		BeginEntries(&e, &plain.DirAttr, plain.Verf)
		size := statusSize + ListSize(plain.DirAttr.Present)
		for _, n := range plain.Entries {
			AppendEntry(&e, n.Fileid, n.Name, n.Cookie)
			size += EntrySize(len(n.Name))
		}
		if EndEntries(&e, plain.EOF); e.Len() != size || !bytes.Equal(e.Bytes(), whole(plain)) {
			t.Fatalf("READDIR: %d bytes, told %d", e.Len(), size)
		}
		e.Reset(nil)
		BeginEntries(&e, &plus.DirAttr, plus.Verf)
		size = statusSize + ListSize(plus.DirAttr.Present)
		for i := range plus.Entries {
			n := &plus.Entries[i]
			AppendEntryPlus(&e, n.Fileid, n.Name, n.Cookie, &n.Attr, &n.FH)
			size += EntryPlusSize(len(n.Name), &n.Attr, &n.FH)
		}
		if EndEntries(&e, plus.EOF); e.Len() != size || !bytes.Equal(e.Bytes(), whole(plus)) {
			t.Fatalf("READDIRPLUS: %d bytes, told %d", e.Len(), size)
		}
	}
}

// TestEach: entries are passed one by one instead of being stored.
func TestEach(t *testing.T) {
	want := &ReaddirplusRes{Entries: []EntryPlus{{Fileid: 1, Name: []byte("a"), Cookie: 2}, {Fileid: 3, Name: []byte("b"), Cookie: 4}}, EOF: true}
	var names string
	got := &ReaddirplusRes{Each: func(n *EntryPlus) { names += string(n.Name) }}
	d := xdr.NewDecoder(whole(want))
	if got.DecodeXDR(d); d.Err() != nil || names != "ab" || len(got.Entries) != 0 || !got.EOF {
		t.Errorf("%q, %+v, %v", names, got, d.Err())
	}
	plain := &ReaddirRes{Entries: []Entry{{1, []byte("c"), 2}}}
	back := &ReaddirRes{Each: func(n *Entry) { names += string(n.Name) }}
	d = xdr.NewDecoder(whole(plain))
	if back.DecodeXDR(d); d.Err() != nil || names != "abc" || len(back.Entries) != 0 || back.EOF {
		t.Errorf("%q, %+v, %v", names, back, d.Err())
	}
}
