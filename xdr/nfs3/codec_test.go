// Round trips, truncations, detached items, limits and allocations for every message.

package nfs3

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// fresh returns a new message of m's type.
func fresh(m message) message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(message)
}

// eachMessage calls f with n random messages of every type.
func eachMessage(t *testing.T, n int, f func(proc uint32, m message)) {
	r := rand.New(rand.NewPCG(7, 9))
	for _, p := range messages {
		for range n {
			for _, m := range []message{p.args(), p.res()} {
				fill(r, m)
				f(p.proc, m)
			}
		}
	}
}

// TestRoundTrip: a decoded message encodes to the same bytes, with its item inline or detached,
// even if it held another message before.
func TestRoundTrip(t *testing.T) {
	used := map[reflect.Type]message{}
	eachMessage(t, 100, func(proc uint32, m message) {
		back := used[reflect.TypeOf(m)]
		if back == nil {
			back = fresh(m)
			used[reflect.TypeOf(m)] = back
		}
		b := whole(m)
		d := xdr.NewDecoder(b)
		back.DecodeXDR(d)
		if d.Err() != nil || d.Remaining() != 0 || !bytes.Equal(whole(back), b) {
			t.Fatalf("%T: %v, %d bytes left\n%+v\n%+v", m, d.Err(), d.Remaining(), m, back)
		}
		clean := fresh(m)
		clean.DecodeXDR(xdr.NewDecoder(b))
		if !sameMessage(back, clean) {
			t.Fatalf("%T: something of an earlier message is left\n%+v\n%+v", m, back, clean)
		}
		stream, items := encode(m)
		var di xdr.Decoder
		di.Reset(stream, items)
		back.DecodeXDR(&di)
		if di.Err() != nil || di.Remaining() != 0 || di.ItemsLeft() != 0 || !bytes.Equal(whole(back), b) {
			t.Fatalf("%T detached: %v, %d bytes and %d items left", m, di.Err(), di.Remaining(), di.ItemsLeft())
		}
	})
}

// sameMessage compares all fields; an empty list equals none.
func sameMessage(a, b message) bool {
	for _, m := range []message{a, b} {
		switch m := m.(type) {
		case *ReaddirRes:
			if len(m.Entries) == 0 {
				m.Entries = nil
			}
		case *ReaddirplusRes:
			if len(m.Entries) == 0 {
				m.Entries = nil
			}
		}
	}
	return reflect.DeepEqual(a, b)
}

// TestTruncated: each truncated message is refused, except without its very last pad, which peers
// may omit.
func TestTruncated(t *testing.T) {
	eachMessage(t, 4, func(proc uint32, m message) {
		b := whole(m)
		for n := range b {
			d := xdr.NewDecoder(b[:n:n])
			back := fresh(m)
			if back.DecodeXDR(d); d.Err() == nil && (len(b)-n > 3 || !bytes.Equal(whole(back), b)) {
				t.Errorf("%T: %d of %d bytes are taken", m, n, len(b))
			}
		}
	})
}

// TestItems: RFC 8267's four items are detached, and nothing else (RFC 8166 §3.4.2 [R8166-043]).
func TestItems(t *testing.T) {
	conformance.Proves(t, "R8166-043", "R8166-054", "R8166-055", "R8166-183", "R8166-185", "R8166-186", "R8267-010", "R8267-011",
		"R8267-012", "R8267-013", "R8267-014")
	eachMessage(t, 30, func(proc uint32, m message) {
		_, items := encode(m)
		_, isArg := map[uint32]message{ProcWrite: nil, ProcSymlink: nil}[proc]
		_, isRes := map[uint32]message{ProcRead: nil, ProcReadlink: nil}[proc]
		b := Bindings[proc]
		if b.ArgItem != isArg || b.ResItem != isRes {
			t.Fatalf("%s: binding %+v", b.Name, b)
		}
		want := 0
		switch m := m.(type) {
		case *WriteArgs:
			want = min(len(m.Data), 1)
		case *SymlinkArgs:
			want = min(len(m.Path), 1)
		case *ReadRes:
			if m.Status == OK {
				want = min(len(m.Data), 1)
			}
		case *ReadlinkRes:
			if m.Status == OK {
				want = min(len(m.Path), 1)
			}
		}
		if len(items) != want {
			t.Errorf("%T: %d items, want %d", m, len(items), want)
		}
	})
}

// TestBounds: no result without its item exceeds its binding's bound, and a result with all its
// parts reaches the bound.
func TestBounds(t *testing.T) {
	conformance.Proves(t, "R8166-184", "R8166-192")
	most := map[uint32]int{}
	eachMessage(t, 300, func(proc uint32, m message) {
		b := &Bindings[proc]
		n := 0
		switch m := m.(type) {
		case *ReaddirRes, *ReaddirplusRes:
			return
		case *ReadRes, *ReadlinkRes:
			stream, _ := encode(m)
			n = len(stream)
		case *GetattrRes, *WccRes, *LookupRes, *AccessRes, *WriteRes, *CreateRes, *RenameRes, *LinkRes, *FsstatRes, *FsinfoRes, *PathconfRes, *CommitRes:
			n = len(whole(m))
		}
		if n > b.MaxReply {
			t.Errorf("%s: %d bytes, bound %d", b.Name, n, b.MaxReply)
		}
		most[proc] = max(most[proc], n)
	})
	for proc, want := range map[uint32]int{
		ProcGetattr: 88, ProcLookup: 248, ProcAccess: 96, ProcReadlink: 96, ProcRead: 104, ProcWrite: 136, ProcCommit: 128,
		ProcMknod: 280, ProcCreate: 280, ProcMkdir: 280, ProcSymlink: 280, ProcRemove: 120, ProcRmdir: 120, ProcSetattr: 120,
		ProcRename: 236, ProcLink: 208, ProcFsstat: 144, ProcFsinfo: 140, ProcPathconf: 116, ProcReaddir: 132, ProcReaddirplus: 132, ProcNull: 0,
	} {
		b := &Bindings[proc]
		if b.MaxReply != want {
			t.Errorf("%s: bound %d, want %d", b.Name, b.MaxReply, want)
		}
		if got := most[proc]; got != 0 && got < want-FHSize {
			t.Errorf("%s: the largest result had %d bytes, bound %d", b.Name, got, want)
		}
	}
	if n := Bindings[ProcRead].Extra(5); n != 8 {
		t.Errorf("READ of 5 bytes adds %d", n)
	}
	if n := Bindings[ProcWrite].Extra(5); n != 0 {
		t.Errorf("WRITE adds %d", n)
	}
}

// TestValues: enumerations, booleans and lengths outside the protocol are refused.
func TestValues(t *testing.T) {
	fh := []byte{0, 0, 0, 0}
	name := slices.Clip(append(fh, 0, 0, 0, 1, 'a', 0, 0, 0))
	for _, c := range []struct {
		what string
		m    message
		b    []byte
		want error
	}{
		{"handle of 65 bytes", &FHArgs{}, append([]byte{0, 0, 0, 65}, make([]byte, 68)...), xdr.ErrLimit},
		{"huge handle", &FHArgs{}, []byte{0xff, 0xff, 0xff, 0xff}, xdr.ErrLimit},
		{"name of 4097 bytes", &LookupArgs{}, append(append(fh, 0, 0, 0x10, 1), make([]byte, 4100)...), xdr.ErrLimit},
		{"createmode 3", &CreateArgs{}, append(name, 0, 0, 0, 3), xdr.ErrValue},
		{"ftype 8", &MknodArgs{}, append(name, 0, 0, 0, 8), xdr.ErrValue},
		{"ftype 0", &MknodArgs{}, append(name, 0, 0, 0, 0), xdr.ErrValue},
		{"stable_how 3", &WriteArgs{}, append(append(fh, make([]byte, 12)...), 0, 0, 0, 3, 0, 0, 0, 0), xdr.ErrValue},
		{"time_how 3", &MkdirArgs{}, append(append(name, make([]byte, 16)...), 0, 0, 0, 3, 0, 0, 0, 0), xdr.ErrValue},
		{"bool 2", &WccRes{}, []byte{0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0}, xdr.ErrValue},
		{"READ count and data differ", &ReadRes{}, []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 4, 1, 2, 3, 4}, xdr.ErrValue},
	} {
		d := xdr.NewDecoder(c.b)
		if c.m.DecodeXDR(d); !errors.Is(d.Err(), c.want) {
			t.Errorf("%s: %v", c.what, d.Err())
		}
	}
}

func TestDoNotAllocate(t *testing.T) {
	var e xdr.Encoder
	var d xdr.Decoder
	buf := make([]byte, 0, 512)
	fh, _ := MakeFH(make([]byte, 32))
	var wccData WccData
	wccData.Before.Present, wccData.After.Present = true, true
	wccData.After.Attr.Type = TypeReg
	post := wccData.After
	data := make([]byte, 8192)
	for _, c := range []struct{ m, back message }{
		{&GetattrArgs{fh}, &GetattrArgs{}},
		{&GetattrRes{Attr: post.Attr}, &GetattrRes{}},
		{&ReadArgs{fh, 0, 8192}, &ReadArgs{}},
		{&ReadRes{Attr: post, Count: 8192, Data: data}, &ReadRes{}},
		{&WriteArgs{fh, 0, 8192, FileSync, data}, &WriteArgs{}},
		{&WriteRes{Wcc: wccData, Count: 8192}, &WriteRes{}},
		{&LookupArgs{fh, []byte("name")}, &LookupArgs{}},
		{&LookupRes{FH: fh, Attr: post, DirAttr: post}, &LookupRes{}},
		{&AccessRes{Attr: post}, &AccessRes{}},
		{&CommitRes{Wcc: wccData}, &CommitRes{}},
	} {
		if n := testing.AllocsPerRun(100, func() {
			e.Reset(buf)
			c.m.EncodeXDR(&e)
			d.Reset(e.Bytes(), e.Items())
			if c.back.DecodeXDR(&d); d.Err() != nil {
				t.Fatal(d.Err())
			}
		}); n != 0 {
			t.Errorf("%T: %v allocations", c.m, n)
		}
	}
}

// TestCutRead: a reply shortened by CutRead equals one encoded with only the remaining data.
func TestCutRead(t *testing.T) {
	for _, c := range []struct {
		n   int
		end bool
	}{{0, true}, {0, false}, {5, true}, {8000, false}} {
		data := bytes.Repeat([]byte{7}, 8192)
		for _, attr := range []PostOpAttr{{}, {Present: true}} {
			var whole, short xdr.Encoder
			(&ReadRes{Attr: attr, Count: 8192, Data: data}).EncodeXDR(&whole)
			(&ReadRes{Attr: attr, Count: uint32(c.n), EOF: c.end, Data: data[:c.n]}).EncodeXDR(&short)
			CutRead(whole.Bytes()[:whole.Items()[0].Off], c.n, c.end)
			if !bytes.Equal(whole.Bytes(), short.Bytes()) {
				t.Errorf("%d bytes, end %v: % x, want % x", c.n, c.end, whole.Bytes(), short.Bytes())
			}
		}
	}
}
