// Recovered identifications are right, and damaged packets have none.

package udp

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

var (
	portA = netip.MustParseAddrPort("192.0.2.1:49169")
	portB = netip.MustParseAddrPort("192.0.2.2:4791")
)

// sealed returns network headers and datagram of a packet with n payload bytes, sent with the
// given identification; the headers have 0 there.
func sealed(t testing.TB, id uint16, n int) (network, datagram []byte) {
	t.Helper()
	h := packet.Header{BTH: packet.BTH{Opcode: packet.UCSendOnly, PKey: 0xffff, DestQP: 0x12, PSN: uint32(n)}}
	datagram = append(h.Append(nil), make([]byte, n+packet.ICRCLen)...)
	for i := range n {
		datagram[packet.BTHLen+i] = byte(i * 31)
	}
	network = header(make([]byte, 64), portA, portB, len(datagram), 0)
	var c packet.ICRC
	network[atID], network[atID+1] = byte(id>>8), byte(id)
	if err := c.Start(network, datagram[:len(datagram)-packet.ICRCLen]); err != nil {
		t.Fatalf("Start: %v", err)
	}
	packet.PutICRC(datagram[len(datagram)-packet.ICRCLen:], c.Sum())
	network[atID], network[atID+1] = 0, 0
	return network, datagram
}

// A known packet, sent with identification beef, is recognized, and so is each identification at
// some lengths.
func TestIdentify(t *testing.T) {
	conformance.Proves(t, "IBU-225")
	var d identifier
	var c packet.ICRC
	golden, err := hex.DecodeString(strings.ReplaceAll("6430ffff0000001200123456 1111111100000011 68656c6c6f000000 66148950", " ", ""))
	if err != nil {
		t.Fatalf("DecodeString: %v", err)
	}
	network := header(make([]byte, 64), portA, portB, len(golden), 0)
	if !d.identify(network, golden) || network[atID] != 0xbe || network[atID+1] != 0xef || !c.Valid(network, golden) {
		t.Errorf("identification %x", network[atID:atID+2])
	}
	for _, n := range []int{0, 4, 256, 1024, 4096} {
		for id := 0; id < 1<<16; id += 1 + n/16 {
			network, datagram := sealed(t, uint16(id), n)
			if !d.identify(network, datagram) || int(network[atID])<<8|int(network[atID+1]) != id || !c.Valid(network, datagram) {
				t.Fatalf("%d bytes, identification %04x: found %x", n, id, network[atID:atID+2])
			}
		}
	}
}

// About one in 65,536 randomly damaged packets passes, no more; invalid packets are rejected.
func TestDamagedPackets(t *testing.T) {
	var d identifier
	r := rand.New(rand.NewPCG(1, 2))
	passed := 0
	const tries = 100_000
	network, datagram := sealed(t, 77, 64)
	for range tries {
		damaged := bytes.Clone(datagram)
		for range 2 + r.IntN(20) {
			damaged[r.IntN(len(damaged))] ^= byte(1 + r.IntN(255))
		}
		network[atID], network[atID+1] = 0, 0
		if d.identify(network, damaged) {
			passed++
		}
	}
	if passed > 10 {
		t.Errorf("%d of %d damaged packets pass", passed, tries)
	}
	for _, n := range []int{0, 3, packet.BTHLen + packet.ICRCLen - 1, 77, maxDatagram + 1, maxDatagram + 4} {
		if d.identify(network, make([]byte, n)) {
			t.Errorf("%d bytes are a packet", n)
		}
	}
}

// Another packet of a known length allocates nothing.
func TestIdentifyAllocatesNothing(t *testing.T) {
	var d identifier
	network, datagram := sealed(t, 77, 1024)
	d.identify(network, datagram)
	if n := testing.AllocsPerRun(100, func() {
		network[atID], network[atID+1] = 0, 0
		d.identify(network, datagram)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
