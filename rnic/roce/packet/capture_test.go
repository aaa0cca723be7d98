// All packets of a capture between two Linux hosts with rdma_rxe, decoded and encoded.

package packet

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/google/gopacket/pcapgo"
)

const ethernetLen = 14

// eachPacket calls f with each RoCEv2 packet in the capture, from the IP header to the ICRC.
func eachPacket(t testing.TB, f func(number int, wire []byte)) {
	t.Helper()
	in, err := os.Open("testdata/rxe.pcap.gz")
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer in.Close()
	z, err := gzip.NewReader(in)
	if err != nil {
		t.Fatalf("NewReader: %v", err)
	}
	r, err := pcapgo.NewReader(z)
	if err != nil {
		t.Fatalf("NewReader: %v", err)
	}
	for number := 1; ; number++ {
		frame, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if frame[12] != 8 || frame[13] != 0 {
			continue // ARP
		}
		h, rest, err := ParseIPv4(frame[ethernetLen:])
		if errors.Is(err, ErrNetwork) {
			continue // the programs' TCP connection
		}
		if err != nil {
			t.Fatal(err)
		}
		if udp, _, err := ParseUDP(rest); err != nil || udp.Dst != Port {
			t.Fatalf("packet %d: %+v, %v", number, udp, err)
		}
		f(number, frame[ethernetLen:ethernetLen+int(h.Length)]) // a short frame has a trailer
	}
}

// The kernel's packets parse, have valid ICRCs, and survive decoding and encoding.
func TestCapture(t *testing.T) {
	count := map[Opcode]int{}
	var c ICRC
	eachPacket(t, func(number int, wire []byte) {
		network, datagram := split(t, wire)
		if !c.Valid(network, datagram) {
			t.Errorf("packet %d: ICRC not valid", number)
		}
		h, payload, err := Parse(datagram)
		if err != nil {
			t.Fatalf("packet %d: %v", number, err)
		}
		count[h.Opcode]++
		v4, _, err := ParseIPv4(wire)
		if err != nil {
			t.Fatalf("ParseIPv4: %v", err)
		}
		udp, _, err := ParseUDP(wire[IPv4Len:])
		if err != nil {
			t.Fatalf("ParseUDP: %v", err)
		}
		if got := build(t, &v4, nil, &udp, &h, payload); !bytes.Equal(got, wire) {
			t.Errorf("packet %d: built\n%x, want\n%x", number, got, wire)
		}
		if h.AETH != (AETH{}) && h.AETH.Syndrome != ACK(CreditUnlimited) {
			t.Errorf("packet %d: %v", number, h.AETH.Syndrome)
		}
	})
	want := map[Opcode]int{RCSendFirst: 40, RCSendMiddle: 80, RCSendLast: 40, RCAck: 40,
		UCSendFirst: 40, UCSendMiddle: 80, UCSendLast: 40, UDSendOnly: 40}
	for op, n := range want {
		if count[op] != n {
			t.Errorf("%d of %v, want %d", count[op], op, n)
		}
	}
	if len(count) != len(want) {
		t.Errorf("opcodes %v", count)
	}
}

// In each direction of each captured connection, each packet can follow the previous one.
func TestCaptureOrder(t *testing.T) {
	type way struct {
		src, dst [4]byte
		destQP   uint32
		response bool
	}
	before := map[way]Opcode{}
	eachPacket(t, func(number int, wire []byte) {
		h, _, err := Parse(wire[IPv4Len+UDPLen:])
		if err != nil {
			t.Fatalf("Parse: %v", err)
		}
		w := way{[4]byte(wire[12:]), [4]byte(wire[16:]), h.DestQP, h.Opcode.Operation().Response()}
		prev, have := before[w]
		if have && !h.Opcode.CanFollow(prev) || !have && !h.Opcode.Starts() {
			t.Errorf("packet %d: %v after %v", number, h.Opcode, prev)
		}
		before[w] = h.Opcode
	})
	if len(before) != 8 {
		t.Errorf("%d directions", len(before))
	}
}
