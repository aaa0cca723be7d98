//go:build linux

// Sockets on loopback: packets on the wire, captured by a raw socket, and received packets.

package udp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

func open(t *testing.T, addr string) *Socket {
	t.Helper()
	s, err := Listen(netip.MustParseAddrPort(addr))
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	stuck := time.AfterFunc(time.Minute, func() { s.Close() })
	t.Cleanup(func() { stuck.Stop(); s.Close() })
	return s
}

// add adds a UC packet with n payload bytes to a batch.
func add(t *testing.T, b *Batch, n int, to netip.AddrPort) {
	t.Helper()
	h := packet.Header{BTH: packet.BTH{Opcode: packet.UCSendOnly, PKey: 0xffff, DestQP: 0x12, PSN: uint32(n), Pad: packet.PadFor(n)}}
	p := b.Room()
	at := h.Put(p)
	for i := range n {
		p[at+i] = byte(i * 7)
	}
	clear(p[at+n : at+n+int(h.Pad)])
	if err := b.Add(at+n+int(h.Pad), packet.Tail{}, to); err != nil {
		t.Fatalf("Add: %v", err)
	}
}

// gather receives n packets from an address, each with a valid ICRC for its network headers.
func gather(t *testing.T, s *Socket, n int, from netip.AddrPort) (payloads [][]byte) {
	t.Helper()
	in := NewInbound(s, 16)
	var c packet.ICRC
	for len(payloads) < n {
		if err := s.Receive(in); err != nil {
			t.Fatalf("Receive: %v", err)
		}
		for i := range in.Len() {
			network, datagram, good := in.Packet(i)
			if !good || !c.Valid(network, datagram) {
				t.Fatalf("ICRC under %x", network)
			}
			_, payload, err := packet.Parse(datagram)
			if err != nil {
				t.Fatalf("Parse: %v", err)
			}
			if got := in.from(in.packets[i].i); got != from {
				t.Errorf("from %v, want %v", got, from)
			}
			payloads = append(payloads, bytes.Clone(payload))
		}
	}
	return payloads
}

// sizes are the payload sizes for a batch.
var sizes = []int{0, 1, 5, 256, 1000, 1024, 4096, 3}

func exchange(t *testing.T, a, b *Socket) {
	t.Helper()
	out := NewBatch(a, len(sizes))
	for range 3 {
		for _, n := range sizes {
			add(t, out, n, b.Local())
		}
		if !out.Full() {
			t.Error("not full")
		}
		if n, _, err := a.Send(out); n != len(sizes) || err != nil || out.Len() != 0 {
			t.Fatalf("%d, %v", n, err)
		}
		for i, p := range gather(t, b, len(sizes), a.Local()) {
			if len(p) != sizes[i] || sizes[i] > 300 && p[300] != byte(300*7&0xff) {
				t.Errorf("packet %d has %d bytes", i, len(p))
			}
		}
	}
}

// IPv4 batches: a raw socket sees DF and identification 0, and the ICRC is valid for these
// headers.
func TestIPv4(t *testing.T) {
	host := machine.Addr(t) // an address without other traffic: the raw socket's buffer is small
	a, b := open(t, "127.0.0.1:0"), open(t, netip.AddrPortFrom(host, 0).String())
	a.joins = false // a raw socket sees joined packets as one
	raw := rawSocket(t, host)
	exchange(t, a, b)
	conformance.Proves(t, "IBU-224", "IBU-188")
	var c packet.ICRC
	buf := make([]byte, 1<<16)
	for seen := 0; seen < 3*len(sizes); {
		n, _, err := unix.Recvfrom(raw, buf, 0)
		if err != nil {
			t.Fatalf("%d packets seen: %v", seen, err)
		}
		p := buf[:n]
		if n < 28 || p[9] != packet.ProtocolUDP || netip.AddrFrom4([4]byte(p[16:])) != b.Local().Addr() || p[22] != byte(b.Local().Port()>>8) || p[23] != byte(b.Local().Port()) {
			continue // other traffic
		}
		seen++
		if p[0] != 0x45 || p[4] != 0 || p[5] != 0 || p[6] != 0x40 || p[7] != 0 || !c.Valid(p[:28], p[28:]) {
			t.Errorf("on the wire: %x", p[:28])
		}
	}
}

// Packets of one length to one peer are joined on this host. They arrive unchanged, in order,
// each with its position's identification, whether the receiver takes them joined or not. A
// shorter packet, or another peer, ends a join.
func TestJoined(t *testing.T) {
	for _, whole := range []bool{true, false} {
		a, b, c := open(t, "127.0.0.1:0"), open(t, "127.0.0.2:0"), open(t, "127.0.0.3:0")
		if !a.joins || !b.joins {
			t.Fatal("packets are not joined")
		}
		if !whole {
			if err := b.raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 0) }); err != nil {
				t.Fatalf("Control: %v", err)
			}
			b.joins = false
		}
		out := NewBatch(a, 64)
		var want []int
		for i := range 40 {
			n := 3000
			if i == 25 {
				n = 17
			}
			to := b.Local()
			if i == 30 {
				to = c.Local()
			} else {
				want = append(want, n)
			}
			add(t, out, n, to)
		}
		// 21 packets are 64,000 bytes; then 5 with a shorter last one, 4, 1 to another peer, 9.
		if len(out.messages) != 5 {
			t.Errorf("%d messages", len(out.messages))
		}
		if n, _, err := a.Send(out); n != 40 || err != nil {
			t.Fatal(n, err)
		}
		for i, p := range gather(t, b, len(want), a.Local()) {
			if len(p) != want[i] {
				t.Errorf("packet %d has %d bytes, want %d", i, len(p), want[i])
			}
		}
		gather(t, c, 1, a.Local())
	}
}

// After Alone a packet is joined with none before or after it, and leaves as signed; after
// NeverJoin this holds for all.
func TestAlone(t *testing.T) {
	a, b := open(t, "127.0.0.1:0"), open(t, "127.0.0.2:0")
	out := NewBatch(a, 64)
	for i := range 9 {
		if i == 3 || i == 4 {
			out.Alone()
		}
		if i == 7 {
			out.NeverJoin()
		}
		add(t, out, 100, b.Local())
	}
	var sizes []int
	for _, g := range out.messages {
		sizes = append(sizes, g.n)
	}
	if !slices.Equal(sizes, []int{3, 1, 1, 2, 1, 1}) {
		t.Errorf("messages of %v packets", sizes)
	}
	if n, _, err := a.Send(out); n != 9 || err != nil {
		t.Fatal(n, err)
	}
	gather(t, b, 9, a.Local())
}

// A refused joined message is split: its packets leave one by one, each with its new ICRC, or are
// refused one by one.
func TestRefusedJoinIsSplit(t *testing.T) {
	a, b := open(t, "127.0.0.1:0"), open(t, "127.0.0.2:0")
	out := NewBatch(a, 8)
	for range 3 {
		add(t, out, 100, netip.MustParseAddrPort("127.0.0.2:0")) // port 0 is never open
	}
	for range 3 {
		add(t, out, 100, b.Local())
	}
	for range 3 {
		if n, _, err := a.Send(out); n != 0 || !errors.Is(err, unix.EINVAL) {
			t.Fatal(n, err)
		}
		out.Drop()
	}
	if n, _, err := a.Send(out); n != 3 || err != nil || out.Len() != 0 {
		t.Fatal(n, err)
	}
	gather(t, b, 3, a.Local())
	add(t, out, 100, b.Local())
	add(t, out, 100, b.Local())
	if len(out.messages) != 1 {
		t.Errorf("%d messages, want 1: the network has refused earlier ones for their length", len(out.messages))
	}
}

// rawSocket receives all IPv4 UDP packets for one of this host's addresses.
func rawSocket(t *testing.T, host netip.Addr) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		machine.Skip(t, fmt.Sprintf("no raw socket (%v): not tested is which IPv4 headers a UDP socket sends", err))
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: host.As4()}); err != nil {
		t.Fatalf("Bind: %v", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 60}); err != nil {
		t.Fatalf("SetsockoptTimeval: %v", err)
	}
	return fd
}

// IPv6 batches arrive, and so does a datagram without checksum, as Linux rxe sends them.
func TestIPv6(t *testing.T) {
	a, err := Listen(netip.MustParseAddrPort("[::1]:0"))
	if err != nil {
		machine.Skip(t, fmt.Sprintf("no IPv6 on loopback (%v): not tested is RoCE over IPv6", err))
	}
	t.Cleanup(func() { a.Close() })
	conformance.Proves(t, "IBU-226", "IBU-190")
	b := open(t, "[::1]:0")
	exchange(t, a, b)
	// UDP_NO_CHECK6_TX.
	if err := a.raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, 101, 1) }); err != nil {
		t.Fatalf("Control: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	exchange(t, a, b)
}

// A refused packet is reported together with the number sent before it; packets after it leave
// after Drop.
func TestRefusedPacket(t *testing.T) {
	a, b := open(t, "127.0.0.1:0"), open(t, "127.0.0.2:0")
	out := NewBatch(a, 3)
	add(t, out, 1, b.Local())
	add(t, out, 2, netip.MustParseAddrPort("127.0.0.2:0")) // port 0 is never open
	add(t, out, 3, b.Local())
	n, _, err := a.Send(out)
	must.Equal(t, "n", n, 1)
	if !errors.Is(err, unix.EINVAL) {
		t.Fatalf("err: %v, want %v", err, unix.EINVAL)
	}
	must.Equal(t, "out.Len()", out.Len(), 2)
	out.Drop()
	if n, _, err := a.Send(out); n != 1 || err != nil || out.Len() != 0 || out.Full() {
		t.Errorf("%d, %v", n, err)
	}
	if got := gather(t, b, 2, a.Local()); len(got[0]) != 1 || len(got[1]) != 3 {
		t.Errorf("%d and %d bytes", len(got[0]), len(got[1]))
	}
}

// Invalid datagrams are delivered for the port to count, and long ones are cut.
func TestGarbage(t *testing.T) {
	b := open(t, "127.0.0.2:0")
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(b.Local()))
	if err != nil {
		t.Fatalf("DialUDP: %v", err)
	}
	defer c.Close()
	in := NewInbound(b, 4)
	var icrc packet.ICRC
	for _, n := range []int{0, 1, 15, 16, 280, maxDatagram, maxDatagram + 1, 20_000} {
		if _, err := c.Write(make([]byte, n)); err != nil {
			t.Fatalf("Write: %v", err)
		}
		if err := b.Receive(in); err != nil || in.Len() != 1 {
			t.Fatalf("%d, %v", in.Len(), err)
		}
		network, datagram, good := in.Packet(0)
		if len(datagram) != min(n, inboundRoom) || len(network) != packet.IPv4Len+packet.UDPLen || good || icrc.Valid(network, datagram) {
			t.Errorf("%d bytes came as %d", n, len(datagram))
		}
	}
}

// Close wakes waiting calls, and Listen accepts only a single interface's address.
func TestClose(t *testing.T) {
	s := open(t, "127.0.0.1:0")
	done := make(chan error)
	go func() { done <- s.Receive(NewInbound(s, 1)) }()
	s.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("done: %v, want %v", err, net.ErrClosed)
	}
	out := NewBatch(s, 1)
	add(t, out, 1, s.Local())
	if _, _, err := s.Send(out); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Send: %v, want %v", err, net.ErrClosed)
	}
	for _, at := range []string{"0.0.0.0:0", "[::]:0", "239.1.2.3:0"} {
		if _, err := Listen(netip.MustParseAddrPort(at)); !errors.Is(err, errAddress) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// Neither sending nor receiving a batch allocates.
func TestBatchesAllocateNothing(t *testing.T) {
	a, b := open(t, "127.0.0.1:0"), open(t, "127.0.0.2:0")
	out, in := NewBatch(a, 4), NewInbound(b, 4)
	round := func() {
		for range 4 {
			if err := out.Add(16, packet.Tail{}, b.Local()); err != nil {
				t.Fatalf("Add: %v", err)
			}
		}
		if n, _, err := a.Send(out); n != 4 || err != nil {
			t.Fatal(n, err)
		}
		for n := 0; n < 4; n += in.Len() {
			if err := b.Receive(in); err != nil {
				t.Fatalf("Receive: %v", err)
			}
		}
	}
	round()
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
