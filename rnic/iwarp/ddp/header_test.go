// DDP headers: golden bytes, checks, truncations, round trips, fuzz.

package ddp

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

var golden = []struct {
	hex string
	Header
}{
	{"41 43 00000000 00000000 00000001 00000000", Header{Last: true, Ctrl: 0x43, MSN: 1}},
	{"01 43 00000000 00000000 00000004 00000000", Header{Ctrl: 0x43, MSN: 4}},
	{"41 43 00000000 00000000 00000004 0000000c", Header{Last: true, Ctrl: 0x43, MSN: 4, MO: 12}},
	{"41 44 1a2b3c05 00000000 00000002 00000000", Header{Last: true, Ctrl: 0x44, Inv: 0x1a2b3c05, MSN: 2}},
	{"41 41 00000000 00000001 00000001 00000000", Header{Last: true, Ctrl: 0x41, QN: QNRead, MSN: 1}},
	{"41 47 00000000 00000002 00000001 00000000", Header{Last: true, Ctrl: 0x47, QN: QNTerminate, MSN: 1}},
	{"81 40 00ab1207 00007f0000001000", Header{Tagged: true, Ctrl: 0x40, STag: 0x00ab1207, TO: 0x7f0000001000}},
	{"c1 40 00ab1207 00007f0000001008", Header{Tagged: true, Last: true, Ctrl: 0x40, STag: 0x00ab1207, TO: 0x7f0000001008}},
	{"c1 42 00cd3401 0000000000010000", Header{Tagged: true, Last: true, Ctrl: 0x42, STag: 0x00cd3401, TO: 0x10000}},
}

// TestGolden: each header encodes to its golden bytes, and is parsed from them (RFC 5041 §1.2
// [R5041-001], RFC 5041 §3 [R5041-014], RFC 5041 §4.1 [R5041-019 R5041-028], RFC 5041 §4.2
// [R5041-032], RFC 5041 §4.3 [R5041-040]).
func TestGolden(t *testing.T) {
	conformance.Proves(t, "R5040-009", "R5040-010", "R5041-001", "R5041-014", "R5041-019", "R5041-028", "R5041-030", "R5041-032",
		"R5041-034", "R5041-037", "R5041-040", "R5041-042")
	for _, g := range golden {
		wire := must.Hex(t, g.hex)
		if got := g.Append([]byte{0xee}); !bytes.Equal(got[1:], wire) || got[0] != 0xee {
			t.Errorf("built %x, want %x", got[1:], wire)
		}
		room := make([]byte, UntaggedLen)
		if n := g.Put(room); n != len(wire) || n != g.Len() || !bytes.Equal(room[:n], wire) {
			t.Errorf("put %x, %d bytes, want %x", room[:n], n, wire)
		}
		h, payload, err := Parse(append(bytes.Clone(wire), "payload"...))
		if err != nil || h != g.Header || string(payload) != "payload" {
			t.Errorf("%x: parsed %+v, %q, %v, want %+v", wire, h, payload, err, g.Header)
		}
		if got := Terminated(append(bytes.Clone(wire), 1, 2, 3, 4, 5)); !bytes.Equal(got, wire) {
			t.Errorf("%x: a Terminate returns %x", wire, got)
		}
		for i := range wire {
			if _, _, err := Parse(wire[:i]); !errors.Is(err, errShort) {
				t.Errorf("first %d bytes of %x: %v", i, wire, err)
			}
			if got := Terminated(wire[:i]); got != nil {
				t.Errorf("first %d bytes of %x: a Terminate returns %x", i, wire, got)
			}
		}
	}
}

// Each model has a separate code for a wrong DDP version; reserved bits are ignored (RFC 5041 §4.1
// [R5041-029 R5041-030 R5041-031]).
func TestFirstByte(t *testing.T) {
	conformance.Proves(t, "R5041-019", "R5041-020", "R5041-021", "R5041-029", "R5041-031", "R5041-117", "R5041-123", "R5044-175")
	seg := make([]byte, UntaggedLen)
	for o := range 256 {
		seg[0] = byte(o)
		h, _, err := Parse(seg)
		var want term.Code
		switch {
		case o&3 == 1:
		case o&0x80 != 0:
			want = term.DDPTaggedVersion
		default:
			want = term.DDPUntaggedVersion
		}
		if code, bad := term.CodeOf(err); code != want || bad != (o&3 != 1) {
			t.Errorf("%#02x: %v, want %v", o, err, want)
		}
		if h.Tagged != (o&0x80 != 0) || h.Last != (o&0x40 != 0) {
			t.Errorf("%#02x: %+v", o, h)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Header{Tagged: rapid.Bool().Draw(t, "T"), Last: rapid.Bool().Draw(t, "L"), Ctrl: rapid.Byte().Draw(t, "ctrl")}
		if want.Tagged {
			want.STag, want.TO = rapid.Uint32().Draw(t, "STag"), rapid.Uint64().Draw(t, "TO")
		} else {
			want.Inv, want.QN = rapid.Uint32().Draw(t, "Inv"), rapid.Uint32().Draw(t, "QN")
			want.MSN, want.MO = rapid.Uint32().Draw(t, "MSN"), rapid.Uint32().Draw(t, "MO")
		}
		wire := want.Append(nil)
		got, payload, err := Parse(wire)
		if err != nil || got != want || len(payload) != 0 {
			t.Fatalf("%+v came back as %+v, %v", want, got, err)
		}
	})
}

func TestNoAllocs(t *testing.T) {
	buf := make([]byte, 0, 64)
	h := Header{Ctrl: 0x43, MSN: 7}
	if n := testing.AllocsPerRun(100, func() {
		b := h.Append(buf)
		b = b[:h.Put(b)]
		if got, _, err := Parse(b); err != nil || got != h {
			t.Fatalf("Parse: %+v, %v, want %+v", got, err, h)
		}
		if _, _, err := Parse(b[:3]); err == nil {
			t.Fatal("short header taken")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, g := range golden {
		f.Add(must.Hex(f, g.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, payload, err := Parse(b)
		if err != nil {
			if _, ok := term.CodeOf(err); !ok || payload != nil {
				t.Fatalf("payload or no code with %v", err)
			}
			return
		}
		if len(payload) != len(b)-h.Len() {
			t.Fatalf("%d bytes of payload in %d", len(payload), len(b))
		}
		same, _, err := Parse(h.Append(nil))
		if err != nil || same != h {
			t.Fatalf("%+v came back as %+v, %v", h, same, err)
		}
	})
}
