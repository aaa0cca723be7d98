// Transport headers: rejected and ignored input, round trips, allocations, fuzzing.

package packet

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// Each bit in the packets with the longest headers belongs to one field, or is reserved.
// IBA 9.6 [IBU-173 IBU-185], IBA wire RoCEv2 BTH [IBU-191].
func TestReservedBits(t *testing.T) {
	for op := range everyOpcode {
		if !op.Known() {
			continue
		}
		sent := Header{BTH: BTH{Opcode: op}}
		wire := append(sent.Append(nil), make([]byte, ICRCLen)...)
		for bit := 8; bit < op.HeaderLen()*8; bit++ {
			b := bytes.Clone(wire)
			b[bit/8] ^= 0x80 >> (bit % 8)
			h, _, err := Parse(b)
			reserved := bit/8 == 4 && bit%8 >= 2 || bit/8 == 8 && bit%8 >= 1 || op.Carries(ExtDETH) && bit/8 == 16
			switch {
			case bit/8 == 1 && bit%8 >= 4:
				if !errors.Is(err, ErrVersion) || h != (Header{}) {
					t.Errorf("%v, bit %d, a transport version: %v", op, bit, err)
				}
			case bit/8 == 1 && bit%8 >= 2:
				if !errors.Is(err, ErrShort) {
					t.Errorf("%v, bit %d, pad that is not there: %v", op, bit, err)
				}
			case err != nil || (h == sent) != reserved:
				t.Errorf("%v, bit %d: %+v, %v", op, bit, h, err)
			case !reserved && !bytes.Equal(h.Append(nil), b[:op.HeaderLen()]):
				t.Errorf("%v, bit %d: came back as %x", op, bit, h.Append(nil))
			}
		}
	}
}

// A reserved opcode is reported together with the BTH, with which RC answers it; the version is
// checked before. IBA 9.6 [IBU-173].
func TestReservedOpcode(t *testing.T) {
	for op := range everyOpcode {
		sent := Header{BTH: BTH{Opcode: op, PKey: 0xffff, DestQP: 7, AckReq: true, PSN: 9}}
		b := make([]byte, MaxHeaderLen+ICRCLen)
		sent.Put(b)
		h, payload, err := Parse(b)
		if op.Known() != (err == nil) || err != nil && (!errors.Is(err, ErrOpcode) || payload != nil) || h.BTH != sent.BTH {
			t.Errorf("%v: %+v, %v", op, h, err)
		}
		b[1] |= 1
		if _, _, err := Parse(b); !errors.Is(err, ErrVersion) {
			t.Errorf("%v with transport version 1: %v", op, err)
		}
	}
}

// drawHeader draws a header with fields of wire width.
func drawHeader(t *rapid.T) Header {
	var known []Opcode
	for op := range everyOpcode {
		if op.Known() {
			known = append(known, op)
		}
	}
	u24 := rapid.Uint32Range(0, low24)
	op := rapid.SampledFrom(known).Draw(t, "opcode")
	h := Header{BTH: BTH{Opcode: op, SE: rapid.Bool().Draw(t, "SE"), M: rapid.Bool().Draw(t, "M"), PKey: rapid.Uint16().Draw(t, "P_Key"),
		FECN: rapid.Bool().Draw(t, "FECN"), BECN: rapid.Bool().Draw(t, "BECN"), DestQP: u24.Draw(t, "QP"),
		AckReq: rapid.Bool().Draw(t, "A"), PSN: u24.Draw(t, "PSN")}}
	if op.Carries(ExtDETH) {
		h.DETH = DETH{rapid.Uint32().Draw(t, "Q_Key"), u24.Draw(t, "source QP")}
	}
	if op.Carries(ExtRETH) {
		h.RETH = RETH{rapid.Uint64().Draw(t, "VA"), rapid.Uint32().Draw(t, "R_Key"), rapid.Uint32().Draw(t, "length")}
	}
	if op.Carries(ExtAtomicETH) {
		h.Atomic = AtomicETH{rapid.Uint64().Draw(t, "VA"), rapid.Uint32().Draw(t, "R_Key"), rapid.Uint64().Draw(t, "swap"), rapid.Uint64().Draw(t, "compare")}
	}
	if op.Carries(ExtAETH) {
		h.AETH = AETH{Syndrome(rapid.Byte().Draw(t, "syndrome")), u24.Draw(t, "MSN")}
	}
	if op.Carries(ExtAtomicAckETH) {
		h.Original = rapid.Uint64().Draw(t, "original")
	}
	if op.Carries(ExtImmDt) {
		h.Imm = rapid.Uint32().Draw(t, "immediate")
	}
	if op.Carries(ExtIETH) {
		h.Invalidate = rapid.Uint32().Draw(t, "invalidate")
	}
	return h
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawHeader(t)
		payload := rapid.SliceOfN(rapid.Byte(), 0, 70).Draw(t, "payload")
		want.Pad = PadFor(len(payload))
		wire := want.Append([]byte{0xee})
		room := make([]byte, MaxHeaderLen)
		if n := want.Put(room); n != want.Len() || wire[0] != 0xee || !bytes.Equal(wire[1:], room[:n]) {
			t.Fatalf("appended %x, put %x", wire, room[:n])
		}
		wire = append(append(wire[1:], payload...), make([]byte, int(want.Pad)+ICRCLen)...)
		got, p, err := Parse(wire)
		if err != nil || got != want || !bytes.Equal(p, payload) {
			t.Fatalf("%+v came back as %+v, %x, %v", want, got, p, err)
		}
	})
}

// Numbers wider than their fields lose the excess bits, and change no other field.
func TestWideNumbers(t *testing.T) {
	h := Header{BTH: BTH{Opcode: UDSendOnly, DestQP: 0xff000001, PSN: 0xff000002, Pad: 0xfd}, DETH: DETH{SrcQP: 0xff000003}}
	want := Header{BTH: BTH{Opcode: UDSendOnly, DestQP: 1, PSN: 2, Pad: 1}, DETH: DETH{SrcQP: 3}}
	if got := h.Append(nil); !bytes.Equal(got, want.Append(nil)) {
		t.Errorf("%x", got)
	}
	h = Header{BTH: BTH{Opcode: RCAck}, AETH: AETH{Syndrome: 0x1f, MSN: 0xff000004}}
	if got := h.Append(nil)[BTHLen:]; !bytes.Equal(got, []byte{0x1f, 0, 0, 4}) {
		t.Errorf("%x", got)
	}
}

// Neither sending nor receiving a packet, valid or not, allocates.
func TestNoAllocs(t *testing.T) {
	network, datagram := split(t, must.Hex(t, golden[0].hex))
	c := new(ICRC)
	room := make([]byte, 0, 128)
	if n := testing.AllocsPerRun(100, func() {
		h, payload, err := Parse(datagram)
		if err != nil || !c.Valid(network, datagram) || c.Valid(network, datagram[:20]) {
			t.Fatal(err)
		}
		if _, _, err := Parse(datagram[:5]); err == nil {
			t.Fatal("a short packet parsed")
		}
		b := h.Append(room)
		if err := c.Start(network, b); err != nil {
			t.Fatalf("Start: %v", err)
		}
		c.Add(payload)
		PutICRC(b[:4], c.Sum())
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzParse: a parsed packet is reproduced from its headers, payload, pad and ICRC.
func FuzzParse(f *testing.F) {
	for _, g := range golden {
		_, datagram := split(f, must.Hex(f, g.hex))
		f.Add(datagram)
	}
	for op := range everyOpcode {
		h := Header{BTH: BTH{Opcode: op}}
		f.Add(append(h.Append(nil), make([]byte, ICRCLen)...))
	}
	var c ICRC
	network := make([]byte, GRHLen+UDPLen)
	network[0] = version6 << 4
	f.Fuzz(func(t *testing.T, b []byte) {
		h, payload, err := Parse(b)
		if err != nil {
			if payload != nil || !errors.Is(err, ErrOpcode) && h != (Header{}) {
				t.Fatalf("%+v, %x beside %v", h, payload, err)
			}
			return
		}
		if h.Len()+len(payload)+int(h.Pad)+ICRCLen != len(b) {
			t.Fatalf("%+v and %d bytes of payload in %d", h, len(payload), len(b))
		}
		b = append(append(h.Append(nil), payload...), make([]byte, int(h.Pad)+ICRCLen)...)
		if err := c.Start(network, b[:len(b)-ICRCLen]); err != nil {
			t.Fatalf("Start: %v", err)
		}
		PutICRC(b[len(b)-ICRCLen:], c.Sum())
		same, p, err := Parse(b)
		if err != nil || same != h || !bytes.Equal(p, payload) || !c.Valid(network, b) {
			t.Fatalf("%+v came back as %+v, %v", h, same, err)
		}
	})
}
