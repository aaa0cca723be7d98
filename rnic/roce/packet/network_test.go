// Network headers: GRH, IPv4 in its place, UDP; truncations, round trips, fuzz.

package packet

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"pgregory.net/rapid"
)

// The 40 bytes before a UD payload are built and parsed. IBA 11.4.1.2 [IBU-235], IBA wire RoCEv2
// GRH [IBU-196].
func TestGRH(t *testing.T) {
	conformance.Proves(t, "IBU-189", "IBU-196", "IBU-235")
	want := must.Hex(t, "6b8fffff 0028 11 40 20010db8000000000000000000000001 20010db8000000000000000000000002")
	h := GRH{TClass: 0xb8, FlowLabel: 0xfffff, PayLen: 40, NxtHdr: ProtocolUDP, HopLmt: 64, SGID: v6a, DGID: v6b}
	b := bytes.Repeat([]byte{0xee}, GRHLen)
	if n := h.Put(b); n != GRHLen || !bytes.Equal(b, want) {
		t.Errorf("put %x, want %x", b, want)
	}
	if got, rest, err := ParseGRH(append(want, 1)); err != nil || got != h || !bytes.Equal(rest, []byte{1}) {
		t.Errorf("parsed %+v, %x, %v", got, rest, err)
	}
	for i := range want {
		if _, _, err := ParseGRH(want[:i]); !errors.Is(err, ErrShort) {
			t.Errorf("first %d bytes: %v", i, err)
		}
	}
	h.FlowLabel, h.TClass, h.SGID = 0xfff00001, 0, v4a // too wide, and a mapped address
	h.Put(b)
	if !bytes.Equal(b[:24], must.Hex(t, "60000001 0028 11 40 00000000000000000000ffffc0000201")) {
		t.Errorf("put %x", b)
	}

	v4 := golden[0].v4
	b = append(make([]byte, GRHLen-IPv4Len), must.Hex(t, golden[0].hex)[:IPv4Len]...)
	if _, _, err := ParseGRH(b); !errors.Is(err, ErrNetwork) {
		t.Errorf("an IPv4 header as GRH: %v", err)
	}
	if got, _, err := ParseIPv4(b[20:]); err != nil || got != *v4 {
		t.Errorf("parsed %+v, %v", got, err)
	}
}

// Options, other protocols, and each truncation are rejected. IBA wire RoCEv2 IPv4 [IBU-188].
func TestInvalidNetworkHeaders(t *testing.T) {
	wire := must.Hex(t, golden[0].hex)
	for i := range IPv4Len {
		if _, _, err := ParseIPv4(wire[:i]); !errors.Is(err, ErrShort) {
			t.Errorf("first %d bytes of IPv4: %v", i, err)
		}
	}
	for i := range UDPLen {
		if _, _, err := ParseUDP(wire[IPv4Len : IPv4Len+i]); !errors.Is(err, ErrShort) {
			t.Errorf("first %d bytes of UDP: %v", i, err)
		}
	}
	for at, value := range map[int]byte{0: 0x46, 9: 6} {
		b := bytes.Clone(wire)
		b[at] = value
		if _, _, err := ParseIPv4(b); !errors.Is(err, ErrNetwork) {
			t.Errorf("byte %d is %#x: %v", at, value, err)
		}
	}
}

func TestNetworkRoundTrip(t *testing.T) {
	v4 := rapid.Custom(func(t *rapid.T) netip.Addr {
		return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address")))
	})
	v6 := rapid.Custom(func(t *rapid.T) netip.Addr {
		return netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "address")))
	})
	u8, u16 := rapid.Byte(), rapid.Uint16()
	rapid.Check(t, func(t *rapid.T) {
		b := make([]byte, GRHLen)
		ip := IPv4{u8.Draw(t, "TOS"), u16.Draw(t, "length"), u16.Draw(t, "ID"), u16.Draw(t, "fragment"), u8.Draw(t, "TTL"), v4.Draw(t, "from"), v4.Draw(t, "to")}
		if got, _, err := ParseIPv4(b[:ip.Put(b)]); err != nil || got != ip {
			t.Fatalf("%+v came back as %+v, %v", ip, got, err)
		}
		if sum := onesSum(b[:IPv4Len]); sum != 0xffff {
			t.Fatalf("%+v: with its checksum the header sums up to %#x", ip, sum)
		}
		udp := UDP{u16.Draw(t, "source"), u16.Draw(t, "destination"), u16.Draw(t, "length"), u16.Draw(t, "checksum")}
		if got, _, err := ParseUDP(b[:udp.Put(b)]); err != nil || got != udp {
			t.Fatalf("%+v came back as %+v, %v", udp, got, err)
		}
		grh := GRH{u8.Draw(t, "class"), rapid.Uint32Range(0, maskFlow).Draw(t, "flow"), u16.Draw(t, "length"), u8.Draw(t, "next"), u8.Draw(t, "limit"), v6.Draw(t, "from"), v6.Draw(t, "to")}
		if got, _, err := ParseGRH(b[:grh.Put(b)]); err != nil || got != grh {
			t.Fatalf("%+v came back as %+v, %v", grh, got, err)
		}
	})
}

// FuzzNetwork: accepted network headers are reproduced byte by byte, except the checksum.
func FuzzNetwork(f *testing.F) {
	for _, g := range golden {
		f.Add(must.Hex(f, g.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		again := make([]byte, GRHLen)
		if h, rest, err := ParseGRH(b); err == nil {
			if n := h.Put(again); !bytes.Equal(again[:n], b[:n]) || len(rest) != len(b)-n {
				t.Fatalf("%x came back as %x", b[:n], again[:n])
			}
		}
		if h, rest, err := ParseIPv4(b); err == nil {
			n := h.Put(again)
			copy(again[10:12], b[10:])
			if !bytes.Equal(again[:n], b[:n]) || len(rest) != len(b)-n {
				t.Fatalf("%x came back as %x", b[:n], again[:n])
			}
		}
		if h, _, err := ParseUDP(b); err == nil {
			if n := h.Put(again); !bytes.Equal(again[:n], b[:n]) {
				t.Fatalf("%x came back as %x", b[:n], again[:n])
			}
		}
	})
}
