// The ICRC: covered bits, independence of the pieces, and rejected input.

package packet

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// slowICRC computes the ICRC of a packet from its IP header on, without ICRC, bit by bit, with
// its own list of masked bytes.
func slowICRC(packet []byte) uint32 {
	masked := map[int]byte{1: 0xff, 8: 0xff, 10: 0xff, 11: 0xff, 26: 0xff, 27: 0xff, 32: 0xff}
	if packet[0]>>4 == 6 {
		masked = map[int]byte{0: 0x0f, 1: 0xff, 2: 0xff, 3: 0xff, 7: 0xff, 46: 0xff, 47: 0xff, 52: 0xff}
	}
	crc := ^uint32(0)
	step := func(b byte) {
		crc ^= uint32(b)
		for range 8 {
			crc = crc>>1 ^ 0xedb88320*(crc&1)
		}
	}
	for range 8 {
		step(0xff)
	}
	for i, b := range packet {
		step(b | masked[i])
	}
	return ^crc
}

// Each bit of each golden packet is flipped: the ICRC matches the bit-by-bit one, and the packet
// stays valid only for bits that routers change. IBA ICRC [IBU-218 IBU-219 IBU-220 IBU-222].
func TestEachBit(t *testing.T) {
	conformance.Proves(t, "IBU-218", "IBU-219", "IBU-220", "IBU-222")
	var c ICRC
	for _, g := range golden {
		wire := must.Hex(t, g.hex)
		network, datagram := split(t, wire)
		free := 0
		for bit := range len(wire) * 8 {
			wire[bit/8] ^= 0x80 >> (bit % 8)
			valid := c.Valid(network, datagram)
			if want := len(wire) - ICRCLen; wire[0] == 0x45 || wire[0]>>4 == 6 {
				crc := slowICRC(wire[:want])
				icrc := uint32(wire[want]) | uint32(wire[want+1])<<8 | uint32(wire[want+2])<<16 | uint32(wire[want+3])<<24
				if valid != (crc == icrc) {
					t.Errorf("%s: bit %d: valid %v, want %v", g.name, bit, valid, crc == icrc)
				}
			} else if valid {
				t.Errorf("%s: bit %d: valid", g.name, bit)
			}
			if valid {
				free++
			}
			wire[bit/8] ^= 0x80 >> (bit % 8)
		}
		want := 8 * (1 + 1 + 2 + 2 + 1) // TOS, TTL, checksum, UDP checksum, BTH byte 4
		if g.v6 != nil {
			want = 8 + 20 + 8 + 16 + 8
		}
		if free != want {
			t.Errorf("%s: %d bits are masked, want %d", g.name, free, want)
		}
	}
}

// Neither the division into pieces nor the ICRC's earlier use matters.
func TestPieces(t *testing.T) {
	var c ICRC
	for _, g := range golden {
		wire := must.Hex(t, g.hex)
		network, datagram := split(t, wire)
		covered := datagram[:len(datagram)-ICRCLen]
		want := slowICRC(wire[:len(wire)-ICRCLen])
		for i := BTHLen; i <= len(covered); i++ {
			for j := i; j <= min(len(covered), i+9); j++ {
				if err := c.Start(network, covered[:i]); err != nil {
					t.Fatalf("Start: %v", err)
				}
				c.Add(covered[i:j])
				c.Add(nil)
				c.Add(covered[j:])
				if c.Sum() != want {
					t.Fatalf("%s in pieces of %d and %d bytes: %08x, want %08x", g.name, i, j-i, c.Sum(), want)
				}
			}
		}
	}
}

func TestStartRefuses(t *testing.T) {
	var c ICRC
	v4, v6 := make([]byte, IPv4Len+UDPLen), make([]byte, GRHLen+UDPLen)
	v4[0], v6[0] = versionIHL, version6<<4
	bth := make([]byte, BTHLen)
	for _, network := range [][]byte{v4, v6} {
		if err := c.Start(network, bth); err != nil {
			t.Errorf("Start: %v", err)
		}
		if err := c.Start(network, bth[:BTHLen-1]); !errors.Is(err, ErrShort) {
			t.Errorf("short BTH: %v", err)
		}
		for i := range network {
			if err := c.Start(network[:i], bth); !errors.Is(err, ErrNetwork) {
				t.Errorf("first %d bytes of network headers: %v", i, err)
			}
		}
	}
	for first := range 256 {
		v4[0], v6[0] = byte(first), byte(first)
		if err := c.Start(v4, bth); (err == nil) != (first == 0x45) {
			t.Errorf("%02x before 27 bytes: %v", first, err)
		}
		if err := c.Start(v6, bth); (err == nil) != (first>>4 == 6) {
			t.Errorf("%02x before 47 bytes: %v", first, err)
		}
	}
}

// TestKnownTail: with a known tail a packet has the same ICRC, and the tail's bytes are not
// read; a tail that begins in the BTH is rejected.
func TestKnownTail(t *testing.T) {
	network := must.Hex(t, golden[0].hex)[:IPv4Len+UDPLen]
	for _, n := range []int{256, 1024, 4096} {
		payload := make([]byte, n)
		for i := range payload {
			payload[i] = byte(i * 7)
		}
		b := make([]byte, BTHLen+RETHLen+n)
		b[3] = 5
		tail := CopyTail(b[BTHLen+RETHLen:], payload)
		var c, d ICRC
		if err := c.Start(network, b); err != nil {
			t.Fatalf("Start: %v", err)
		}
		clear(b[len(b)-tail.N:])
		if err := d.StartWith(network, b, tail); err != nil || d.Sum() != c.Sum() {
			t.Errorf("%d: %#x, %v; want %#x", n, d.Sum(), err, c.Sum())
		}
		if err := d.StartWith(network, b[:BTHLen+n-1], Tail{N: n}); err == nil {
			t.Error("an end that begins in the BTH")
		}
	}
}
