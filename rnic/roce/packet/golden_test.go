// Whole packets byte by byte: hand-written, and from other stacks.

package packet

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

var (
	v4a, v4b = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	v6a, v6b = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	bytes256 = func() (b []byte) {
		for i := range 256 {
			b = append(b, byte(i))
		}
		return b
	}()
)

// ours returns the hand-written packets' network headers.
func ours(total uint16) *IPv4 {
	return &IPv4{Length: total, Fragment: DontFragment, TTL: 64, Src: v4a, Dst: v4b}
}

// golden are packets from the IP header to the ICRC. The last two are from other stacks, the very
// last from an adapter.
var golden = []struct {
	name    string
	hex     string
	v4      *IPv4
	v6      *GRH
	udp     UDP
	h       Header
	payload string
}{
	{"UD SEND Only", "4500003c000040004011b6adc0000201c0000202 c01112b700280000 6430ffff0000001200123456 1111111100000011 68656c6c6f000000 90340ede",
		ours(60), nil, UDP{0xc011, Port, 40, 0},
		Header{BTH: BTH{Opcode: UDSendOnly, Pad: 3, PKey: 0xffff, DestQP: 0x12, PSN: 0x123456}, DETH: DETH{0x11111111, 0x11}}, "hello"},
	{"UD SEND Only, another ID", "45b8003cbeef40000711 3006c0000201c0000202 c01112b700280000 6430ffff0000001200123456 1111111100000011 68656c6c6f000000 66148950",
		&IPv4{TOS: 0xb8, Length: 60, ID: 0xbeef, Fragment: DontFragment, TTL: 7, Src: v4a, Dst: v4b}, nil, UDP{0xc011, Port, 40, 0},
		Header{BTH: BTH{Opcode: UDSendOnly, Pad: 3, PKey: 0xffff, DestQP: 0x12, PSN: 0x123456}, DETH: DETH{0x11111111, 0x11}}, "hello"},
	{"UC SEND Only, empty", "4500002c000040004011b6bdc0000201c0000202 c01112b700180000 2400ffff0000001200ffffff 7146c09d",
		ours(44), nil, UDP{0xc011, Port, 24, 0},
		Header{BTH: BTH{Opcode: UCSendOnly, PKey: 0xffff, DestQP: 0x12, PSN: 0xffffff}}, ""},
	{"UC RDMA WRITE Only with Immediate", "45000048000040004011b6a1c0000201c0000202 c01112b700340000 2b90ffff0000001200000000 00007f001234567800001a2b00000007 deadbeef 52444d4177727400 283cf7b1",
		ours(72), nil, UDP{0xc011, Port, 52, 0},
		Header{BTH: BTH{Opcode: UCWriteOnlyImm, SE: true, Pad: 1, PKey: 0xffff, DestQP: 0x12}, RETH: RETH{0x7f0012345678, 0x1a2b, 7}, Imm: 0xdeadbeef}, "RDMAwrt"},
	{"UC SEND First", "4500012c000040004011b5bdc0000201c0000202 c01112b701180000 2000ffff0000001200000010" + hex.EncodeToString(bytes256) + "a828b483",
		ours(300), nil, UDP{0xc011, Port, 280, 0},
		Header{BTH: BTH{Opcode: UCSendFirst, PKey: 0xffff, DestQP: 0x12, PSN: 0x10}}, string(bytes256)},
	{"UC SEND Last", "45000030000040004011b6b9c0000201c0000202 c01112b7001c0000 2230ffff0000001200000011 5a000000 61895991",
		ours(48), nil, UDP{0xc011, Port, 28, 0},
		Header{BTH: BTH{Opcode: UCSendLast, Pad: 3, PKey: 0xffff, DestQP: 0x12, PSN: 0x11}}, "Z"},
	{"UD SEND Only with Immediate, IPv6", "6000000000281140 20010db8000000000000000000000001 20010db8000000000000000000000002 c01112b700280000 6500ffff0000001200000007 1111111100000011 01020304 70696e67 c3d6d0fa",
		nil, &GRH{PayLen: 40, NxtHdr: ProtocolUDP, HopLmt: 64, SGID: v6a, DGID: v6b}, UDP{0xc011, Port, 40, 0},
		Header{BTH: BTH{Opcode: UDSendOnlyImm, PKey: 0xffff, DestQP: 0x12, PSN: 7}, DETH: DETH{0x11111111, 0x11}, Imm: 0x01020304}, "ping"},
	{"UC SEND Only with MigReq", "45010040047840004011b4d5c0a80007c0a80007 c00012b7002caca2 2460ffff000000d300cf1710 4630818be28935d90e9a95505401be885e500000 78f353f3",
		&IPv4{TOS: 1, Length: 64, ID: 0x478, Fragment: DontFragment, TTL: 64, Src: netip.MustParseAddr("192.168.0.7"), Dst: netip.MustParseAddr("192.168.0.7")}, nil,
		UDP{0xc000, Port, 44, 0xaca2},
		Header{BTH: BTH{Opcode: UCSendOnly, M: true, Pad: 2, PKey: 0xffff, DestQP: 0xd3, PSN: 0xcf1710}}, "\x46\x30\x81\x8b\xe2\x89\x35\xd9\x0e\x9a\x95\x50\x54\x01\xbe\x88\x5e\x50"},
	{"CNP", "45c2003c718c4000401191610a0011010a001201 000012b700280000 8100ffff4000011800000000 00000000000000000000000000000000 82fd002a",
		&IPv4{TOS: 0xc2, Length: 60, ID: 0x718c, Fragment: DontFragment, TTL: 64, Src: netip.MustParseAddr("10.0.17.1"), Dst: netip.MustParseAddr("10.0.18.1")}, nil,
		UDP{0, Port, 40, 0},
		Header{BTH: BTH{Opcode: CNP, PKey: 0xffff, BECN: true, DestQP: 0x118}}, strings.Repeat("\x00", 16)},
}

// build encodes a packet like a sender, from the IP header to the ICRC.
func build(t testing.TB, v4 *IPv4, v6 *GRH, udp *UDP, h *Header, payload []byte) []byte {
	t.Helper()
	network := make([]byte, 0, GRHLen+UDPLen)
	if v4 != nil {
		network = network[:v4.Put(network[:IPv4Len])]
	} else {
		network = network[:v6.Put(network[:GRHLen])]
	}
	n := len(network)
	network = network[:n+udp.Put(network[n:n+UDPLen])]
	headers := h.Append(nil)
	pad := make([]byte, h.Pad)
	var c ICRC
	if err := c.Start(network, headers); err != nil {
		t.Fatalf("Start: %v", err)
	}
	c.Add(payload)
	c.Add(pad)
	var icrc [ICRCLen]byte
	PutICRC(icrc[:], c.Sum())
	return bytes.Join([][]byte{network, headers, payload, pad, icrc[:]}, nil)
}

// TestGolden: each packet encodes to its golden bytes, and is parsed from them. IBA wire RoCEv2
// [IBU-187], IBA ICRC [IBU-216 IBU-221 IBU-223].
func TestGolden(t *testing.T) {
	conformance.Proves(t, "IBU-187", "IBU-188", "IBU-191", "IBU-192", "IBU-193", "IBU-194", "IBU-195", "IBU-209", "IBU-210", "IBU-216", "IBU-217", "IBU-221", "IBU-223")
	for _, g := range golden {
		wire := must.Hex(t, g.hex)
		if got := build(t, g.v4, g.v6, &g.udp, &g.h, []byte(g.payload)); !bytes.Equal(got, wire) {
			t.Errorf("%s: built\n%x, want\n%x", g.name, got, wire)
		}
		network, datagram := split(t, wire)
		var c ICRC
		if !c.Valid(network, datagram) {
			t.Errorf("%s: ICRC not valid", g.name)
		}
		h, payload, err := Parse(datagram)
		if err != nil || h != g.h || string(payload) != g.payload {
			t.Errorf("%s: parsed %+v, %x, %v", g.name, h, payload, err)
		}
		if got := PadFor(len(payload)); got != h.Pad {
			t.Errorf("%s: %d bytes of pad, want %d", g.name, got, h.Pad)
		}
	}
}

// split removes a packet's network headers and checks their codecs.
func split(t testing.TB, wire []byte) (network, datagram []byte) {
	t.Helper()
	again := make([]byte, GRHLen+UDPLen)
	var n int
	var rest []byte
	if wire[0]>>4 == 4 {
		h, after, err := ParseIPv4(wire)
		if err != nil || int(h.Length) != len(wire) {
			t.Fatalf("%x: %+v, %v", wire, h, err)
		}
		n, rest = h.Put(again), after
	} else {
		h, after, err := ParseGRH(wire)
		if err != nil || int(h.PayLen) != len(after) {
			t.Fatalf("%x: %+v, %v", wire, h, err)
		}
		n, rest = h.Put(again), after
	}
	udp, datagram, err := ParseUDP(rest)
	must.Succeed(t, err)
	must.Equal(t, "int(udp.Length)", int(udp.Length), len(rest))
	must.Equal(t, "udp.Dst", udp.Dst, Port)
	n += udp.Put(again[n:])
	if !bytes.Equal(again[:n], wire[:n]) {
		t.Fatalf("network headers %x came back as %x", wire[:n], again[:n])
	}
	return wire[:n:n], datagram
}

// Each truncated packet is rejected: pad and ICRC do not fit, the length is no multiple of 4, or
// the ICRC differs.
func TestTruncated(t *testing.T) {
	for _, g := range golden {
		network, datagram := split(t, must.Hex(t, g.hex))
		for i := range datagram {
			h, payload, err := Parse(datagram[:i])
			switch {
			case i < g.h.Len()+int(g.h.Pad)+ICRCLen:
				if !errors.Is(err, ErrShort) {
					t.Errorf("%s: first %d bytes: %v", g.name, i, err)
				}
			case i%4 != 0:
				if !errors.Is(err, ErrLength) {
					t.Errorf("%s: first %d bytes: %v", g.name, i, err)
				}
			}
			if err != nil && (payload != nil || h != Header{}) {
				t.Errorf("%s: first %d bytes: %+v and payload beside %v", g.name, i, h, err)
			}
			var c ICRC
			if c.Valid(network, datagram[:i]) {
				t.Errorf("%s: first %d bytes have a valid ICRC", g.name, i)
			}
		}
	}
}
