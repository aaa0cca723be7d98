// Golden bytes of the chunk lists, each truncation, and the round trip.

package chunks

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

func read(pos, handle, length uint32, offset uint64) ReadSegment {
	return ReadSegment{Position: pos, Segment: Segment{handle, length, offset}}
}

// TestGoldenLists: lists encode to bytes written by hand, with the sizes of RFC 8166 §4.1.2
// [R8166-101] (RFC 8166 §3.4.3 [R8166-045], RFC 8166 §3.4.5 [R8166-058], RFC 8166 §4.3 [R8166-116],
// RFC 8166 §4.3.2 [R8166-121]).
func TestGoldenLists(t *testing.T) {
	conformance.Proves(t, "R8166-045", "R8166-058", "R8166-073", "R8166-096", "R8166-101", "R8166-116", "R8166-121", "R8166-176",
		"R8166-177", "R8166-178")
	for _, g := range []struct {
		name string
		make func(l *Lists)
		hex  string
	}{
		{"NULL", func(l *Lists) {}, "00000000 00000000 00000000"},
		{"READ with Write chunk", func(l *Lists) { l.AddWrite(Segment{0x5100aa07, 8192, 0x700000010000}) },
			"00000000 00000001 00000001 5100aa07 00002000 00007000 00010000 00000000 00000000"},
		{"WRITE with Read chunk", func(l *Lists) { l.Read = append(l.Read, read(80, 0x5100ab09, 4097, 0x700000020010)) },
			"00000001 00000050 5100ab09 00001001 00007000 00020010 00000000 00000000 00000000"},
		{"long call", func(l *Lists) {
			l.Read = append(l.Read, read(0, 0x5100ac0b, 1500, 0x700000030000), read(0, 0x5100ac0c, 2500, 0x700000040000))
		}, "00000001 00000000 5100ac0b 000005dc 00007000 00030000 00000001 00000000 5100ac0c 000009c4 00007000 00040000 00000000 00000000 00000000"},
		{"READDIRPLUS with Reply chunk", func(l *Lists) {
			l.SetReply(Segment{0x5100ad01, 4096, 0x700000050000}, Segment{0x5100ad02, 29000, 0x700000060000})
		}, "00000000 00000000 00000001 00000002 5100ad01 00001000 00007000 00050000 5100ad02 00007148 00007000 00060000"},
		{"empty Write and Reply chunks", func(l *Lists) { l.AddWrite(); l.SetReply() },
			"00000000 00000001 00000000 00000000 00000001 00000000"},
	} {
		var l, back Lists
		g.make(&l)
		want := must.Hex(t, g.hex)
		if got := l.Append(nil); !bytes.Equal(got, want) || l.Size() != len(want) {
			t.Errorf("%s: got %x of size %d, want %x", g.name, got, l.Size(), want)
		}
		rest, err := back.Parse(append(want[:len(want):len(want)], 9, 8, 7))
		if err != nil || !bytes.Equal(rest, []byte{9, 8, 7}) {
			t.Errorf("%s: rest %x, %v, want 090807", g.name, rest, err)
		}
		if got := back.Append(nil); !bytes.Equal(got, want) {
			t.Errorf("%s: parsed %+v, which is %x, want %x", g.name, back, got, want)
		}
		for n := range want {
			if _, err := back.Parse(want[:n:n]); !errors.Is(err, ErrShort) {
				t.Errorf("%s: cut to %d bytes: %v", g.name, n, err)
			}
		}
	}
}

// TestBadLists: malformed XDR, unaligned Positions and excess elements are refused (RFC 8166 §3.4.5
// [R8166-061], RFC 8166 §4.3 [R8166-117]).
func TestBadLists(t *testing.T) {
	conformance.Proves(t, "R8166-061", "R8166-117")
	seg := strings.Repeat("00", 16)
	for _, c := range []struct {
		name, hex string
		want      error
	}{
		{"list word 2", "00000002 00000000 00000000", ErrListWord},
		{"Reply word 2", "00000000 00000000 00000002", ErrListWord},
		{"Position 81", "00000001 00000051" + seg + "00000000 00000000 00000000", ErrPosition},
		{"count over the bytes", "00000000 00000001 ffffffff" + seg, ErrShort},
		{"read segments", strings.Repeat("00000001 00000000"+seg, maxReadSegments+1) + "00000000 00000000 00000000", ErrTooMany},
		{"Write chunks", "00000000" + strings.Repeat("00000001 00000000", maxWriteChunks+1) + "00000000 00000000", ErrTooMany},
		{"Write segments", "00000000 00000001 00000201" + strings.Repeat(seg, 513) + "00000000 00000000", ErrTooMany},
		{"Reply segments", "00000000 00000000 00000001 00000201" + strings.Repeat(seg, 513), ErrTooMany},
	} {
		var l Lists
		if _, err := l.Parse(must.Hex(t, c.hex)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if len(l.Read)+len(l.Write) > 0 || l.HasReply {
			t.Errorf("%s: left %+v", c.name, l)
		}
	}
	var l Lists
	most := "00000000 00000001 00000200" + strings.Repeat(seg, 512) + "00000000 00000001 00000200" + strings.Repeat(seg, 512)
	if _, err := l.Parse(must.Hex(t, most)); err != nil {
		t.Errorf("512 segments in the Write list and in the Reply chunk: %v", err)
	}
}

// TestReadChunks: segments are grouped by Position and keep their order, wherever they stand in the
// list (RFC 8166 §3.4.5 [R8166-062 R8166-063]).
func TestReadChunks(t *testing.T) {
	conformance.Proves(t, "R8166-049", "R8166-062", "R8166-063", "R8166-179")
	var l Lists
	l.Read = []ReadSegment{read(80, 1, 3, 0), read(0, 2, 100, 0), read(80, 3, 1<<32-1, 0), read(200, 4, 0, 0), read(80, 5, 4, 0)}
	got := l.ReadChunks()
	want := []ReadChunk{
		{0, []ReadSegment{read(0, 2, 100, 0)}},
		{80, []ReadSegment{read(80, 1, 3, 0), read(80, 3, 1<<32-1, 0), read(80, 5, 4, 0)}},
		{200, []ReadSegment{read(200, 4, 0, 0)}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if n := got[1].Len(); n != 1<<32+6 {
		t.Errorf("length of the chunk at 80 is %d", n) // RFC 8166 §3.4.4 [R8166-049]
	}
	if z, ok := PositionZero(got); !ok || z.Len() != 100 {
		t.Errorf("Position-zero chunk: %+v %v", z, ok)
	}
	if _, ok := PositionZero(got[1:]); ok {
		t.Error("a Position-zero chunk where there is none")
	}
}

// TestRandomLists: any lists survive the round trip, also in a reused Lists.
func TestRandomLists(t *testing.T) {
	conformance.Proves(t, "R8166-006", "R8166-101")
	r := rand.New(rand.NewPCG(1, 2))
	var back Lists
	for range 500 {
		var l Lists
		for range r.IntN(4) {
			l.Read = append(l.Read, read(r.Uint32()&^3, r.Uint32(), r.Uint32(), r.Uint64()))
		}
		for range r.IntN(4) {
			l.AddWrite(randomSegments(r)...)
		}
		if r.IntN(2) == 0 {
			l.SetReply(randomSegments(r)...)
		}
		b := l.Append(nil)
		if rest, err := back.Parse(b); err != nil || len(rest) != 0 {
			t.Fatalf("%x: %d bytes left, %v", b, len(rest), err)
		}
		if again := back.Append(nil); !bytes.Equal(again, b) || back.Size() != len(b) {
			t.Fatalf("%x came back as %x of size %d", b, again, back.Size())
		}
	}
}

func randomSegments(r *rand.Rand) []Segment {
	segs := make([]Segment, r.IntN(6))
	for i := range segs {
		segs[i] = Segment{r.Uint32(), r.Uint32(), r.Uint64()}
	}
	return segs
}

func TestListsDoNotAllocate(t *testing.T) {
	var l, back Lists
	l.Read = []ReadSegment{read(80, 1, 3, 0), read(0, 2, 100, 0)}
	l.AddWrite(Segment{1, 2, 3}, Segment{4, 5, 6})
	l.AddWrite(Segment{1, 2, 3})
	l.SetReply(Segment{7, 8, 9})
	buf := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() {
		buf = l.Append(buf[:0])
		if _, err := back.Parse(buf); err != nil || len(back.ReadChunks()) != 2 {
			t.Fatalf("Parse: %v, with %d Read chunks, want 2", err, len(back.ReadChunks()))
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzLists(f *testing.F) {
	var seed Lists
	seed.Read = []ReadSegment{read(80, 1, 3, 0), read(0, 2, 100, 0)}
	seed.AddWrite(Segment{1, 2, 3}, Segment{4, 5, 6})
	seed.SetReply(Segment{7, 8, 9})
	f.Add(seed.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var l Lists
		rest, err := l.Parse(b)
		if err != nil {
			return
		}
		if !bytes.Equal(l.Append(nil), b[:len(b)-len(rest)]) {
			t.Error("parsed lists encode to other bytes")
		}
		rc := l.ReadChunks()
		items, err := Place(nil, rc, len(rest))
		if err == nil {
			for i, it := range items {
				least := 4
				if i > 0 {
					least = items[i-1].Off + 4
				}
				if it.Off < least || it.Off > len(rest) {
					t.Errorf("item at %d, want %d to %d", it.Off, least, len(rest))
				}
			}
		}
	})
}
