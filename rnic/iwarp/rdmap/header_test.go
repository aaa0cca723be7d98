// Read Request, Immediate Data and Atomic headers: golden bytes, lengths, round trips, fuzz.

package rdmap

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// checkLengths requires that parse refuses each truncation of wire, and one byte more.
func checkLengths(t *testing.T, wire []byte, long, short error, parse func([]byte) error) {
	t.Helper()
	for i := range wire {
		if err := parse(wire[:i]); !errors.Is(err, short) {
			t.Errorf("first %d bytes of %x: %v", i, wire, err)
		}
	}
	if err := parse(append(bytes.Clone(wire), 0)); !errors.Is(err, long) {
		t.Errorf("one byte more: %v", err)
	}
}

// TestReadRequest: a Read Request encodes to its golden bytes, and is parsed from them (RFC 5040
// §4.4 [R5040-047 R5040-050 R5040-051 R5040-052]).
func TestReadRequest(t *testing.T) {
	conformance.Proves(t, "R5040-047", "R5040-050", "R5040-051", "R5040-052")
	wire := must.Hex(t, "00cd3401 0000000000010000 00000006 00ef5602 0000000000020000")
	want := ReadRequest{SinkSTag: 0x00cd3401, SinkTO: 0x10000, Size: 6, SrcSTag: 0x00ef5602, SrcTO: 0x20000}
	if got := want.Append([]byte{0xee}); !bytes.Equal(got[1:], wire) || got[0] != 0xee {
		t.Errorf("built %x", got)
	}
	room := make([]byte, 40)
	if n := want.put(room); !bytes.Equal(room[:n], wire) {
		t.Errorf("put %x", room[:n])
	}
	if got, err := ParseReadRequest(wire); err != nil || got != want {
		t.Errorf("parsed %+v, %v", got, err)
	}
	checkLengths(t, wire, errReadLong, errReadShort, func(b []byte) error { _, err := ParseReadRequest(b); return err })
}

func TestImmediate(t *testing.T) {
	conformance.Proves(t, "R5040-259")
	wire := must.Hex(t, "0123456789abcdef")
	if got := AppendImmediate(nil, 0x0123456789abcdef); !bytes.Equal(got, wire) {
		t.Errorf("built %x", got)
	}
	if got, err := ParseImmediate(wire); err != nil || got != 0x0123456789abcdef {
		t.Errorf("parsed %x, %v", got, err)
	}
	checkLengths(t, wire, errExtensionLong, errExtensionShort, func(b []byte) error { _, err := ParseImmediate(b); return err })
}

func TestAtomicRequest(t *testing.T) {
	conformance.Proves(t, "R5040-263")
	wire := must.Hex(t, "00000002 0a0b0c0d 00ab1207 00007f0000001000 0000000000000001 0000000000000002 0000000000000003 ffffffffffffffff")
	want := AtomicRequest{Op: CmpSwap, ID: 0x0a0b0c0d, STag: 0x00ab1207, TO: 0x7f0000001000, Data: 1, DataMask: 2, Compare: 3, CompareMask: 1<<64 - 1}
	if got := want.Append(nil); !bytes.Equal(got, wire) {
		t.Errorf("built %x", got)
	}
	if got, err := ParseAtomicRequest(wire); err != nil || got != want {
		t.Errorf("parsed %+v, %v", got, err)
	}
	checkLengths(t, wire, errExtensionLong, errExtensionShort, func(b []byte) error { _, err := ParseAtomicRequest(b); return err })
	copy(wire, "\xff\xff\xff\xf2") // reserved bits are ignored
	if got, err := ParseAtomicRequest(wire); err != nil || got != want {
		t.Errorf("reserved bits set: parsed %+v, %v", got, err)
	}
}

func TestAtomicResponse(t *testing.T) {
	conformance.Proves(t, "R5040-265")
	wire := must.Hex(t, "0a0b0c0d 0123456789abcdef")
	want := AtomicResponse{ID: 0x0a0b0c0d, Original: 0x0123456789abcdef}
	if got := want.Append(nil); !bytes.Equal(got, wire) {
		t.Errorf("built %x", got)
	}
	if got, err := ParseAtomicResponse(wire); err != nil || got != want {
		t.Errorf("parsed %+v, %v", got, err)
	}
	checkLengths(t, wire, errExtensionLong, errExtensionShort, func(b []byte) error { _, err := ParseAtomicResponse(b); return err })
}

// The table's header lengths equal the encoded ones.
func TestHeaderLens(t *testing.T) {
	conformance.Proves(t, "R5040-044", "R5040-259", "R5040-263", "R5040-265")
	for op, got := range map[Opcode]int{
		OpReadRequest:    len(new(ReadRequest).Append(nil)),
		OpImmediate:      len(AppendImmediate(nil, 0)),
		OpAtomicRequest:  len(new(AtomicRequest).Append(nil)),
		OpAtomicResponse: len(new(AtomicResponse).Append(nil)),
	} {
		if want := op.row().header; got != want {
			t.Errorf("%v: %d bytes, the table says %d", op, got, want)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	conformance.Proves(t, "R5040-050", "R5040-051", "R5040-052")
	rapid.Check(t, func(t *rapid.T) {
		u32, u64 := rapid.Uint32(), rapid.Uint64()
		r := ReadRequest{u32.Draw(t, "sink"), u64.Draw(t, "sink TO"), u32.Draw(t, "size"), u32.Draw(t, "source"), u64.Draw(t, "source TO")}
		if got, err := ParseReadRequest(r.Append(nil)); err != nil || got != r {
			t.Fatalf("%+v came back as %+v, %v", r, got, err)
		}
		a := AtomicRequest{AtomicOp(rapid.Uint8Max(15).Draw(t, "op")), u32.Draw(t, "ID"), u32.Draw(t, "STag"), u64.Draw(t, "TO"),
			u64.Draw(t, "data"), u64.Draw(t, "mask"), u64.Draw(t, "compare"), u64.Draw(t, "compare mask")}
		if got, err := ParseAtomicRequest(a.Append(nil)); err != nil || got != a {
			t.Fatalf("%+v came back as %+v, %v", a, got, err)
		}
	})
}

func TestNoAllocs(t *testing.T) {
	buf := make([]byte, 0, 64)
	r := ReadRequest{SinkSTag: 1, Size: 2}
	if n := testing.AllocsPerRun(100, func() {
		b := r.Append(buf)
		r.put(b)
		if got, err := ParseReadRequest(b); err != nil || got != r {
			t.Fatalf("ParseReadRequest: %+v, %v, want %+v", got, err, r)
		}
		op, err := ParseControl(Control(OpReadRequest))
		if err := errors.Join(err, op.Check(false, 1)); err != nil {
			t.Fatalf("%v: %v", op, err)
		}
		if op.Check(true, 0) == nil {
			t.Fatalf("%v is accepted as tagged", op)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(new(ReadRequest).Append(nil))
	f.Add(new(AtomicRequest).Append(nil))
	f.Add(new(AtomicResponse).Append(nil))
	f.Add(AppendImmediate(nil, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := ParseReadRequest(b); err == nil && !bytes.Equal(r.Append(nil), b) {
			t.Fatalf("%x: Read Request %+v", b, r)
		}
		if r, err := ParseAtomicResponse(b); err == nil && !bytes.Equal(r.Append(nil), b) {
			t.Fatalf("%x: Atomic Response %+v", b, r)
		}
		if v, err := ParseImmediate(b); err == nil && !bytes.Equal(AppendImmediate(nil, v), b) {
			t.Fatalf("%x: Immediate Data %x", b, v)
		}
		if a, err := ParseAtomicRequest(b); err == nil {
			if same, err := ParseAtomicRequest(a.Append(nil)); err != nil || same != a {
				t.Fatalf("%x: Atomic Request %+v", b, a)
			}
		}
		for _, o := range b {
			if op, err := ParseControl(o); err == nil && Control(op)|o&0x30 != o {
				t.Fatalf("control %#x is %v", o, op)
			}
		}
	})
}
