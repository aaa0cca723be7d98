// UC and UD through sockets.

package roce

import (
	"bytes"
	"net"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestUnreliableConnection: without loss Sends and Writes arrive, and complete when they have
// left.
func TestUnreliableConnection(t *testing.T) {
	a, b := pair(t, rnic.UC, Options{}, 1024)
	for i, n := range []int{0, 1, 1024, 50_000} {
		data := pattern(n, i)
		got := b.recv(1, n)
		a.post(rnic.SendWR{Op: rnic.OpSendImmediate, Immediate: 9, SGL: [][]byte{data}})
		if wc := b.good(1)[0]; int(wc.Len) != n || wc.Value != 9 || !bytes.Equal(got, data) {
			t.Errorf("Send of %d bytes: %v", n, wc)
		}
		b.recv(2, 0)
		mr, mem := b.region(n, rnic.RemoteWrite)
		a.post(rnic.SendWR{Op: rnic.OpWriteImmediate, SGL: [][]byte{data}, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
		if wc := b.good(1)[0]; wc.Op != rnic.OpRecvWrite || !bytes.Equal(mem, data) {
			t.Errorf("Write of %d bytes: %v", n, wc)
		}
		a.good(2)
	}
	if err := a.qp.PostSend(rnic.SendWR{Op: rnic.OpRead, MR: mustRegion(a), Length: 8}); err == nil {
		t.Error("UC has no Reads")
	}
	if err := a.qp.Disconnect(t.Context()); err != nil {
		t.Errorf("Disconnect: %v", err)
	}
}

func mustRegion(s *side) *rnic.MR {
	mr, _ := s.region(8, rnic.LocalWrite)
	return mr
}

// TestDatagrams: one QP receives from two, over IPv4 and IPv6, and answers the sender named in
// completion and GRH.
func TestDatagrams(t *testing.T) {
	a, b := pair(t, rnic.UD, Options{}, 0)
	c := newSide(t, OpenWith(rnic.DeviceConfig{}, Options{}), rnic.UD).bind(a.id.Addr)
	c.connect(OutOfBand{})
	ah := &rnic.AddressHandle{Addr: b.id.Addr, QPN: b.id.QPN, QKey: testQKey}
	for _, from := range []*side{a, c} {
		got := b.recv(1, 40+100)
		from.post(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{pattern(100, 3)}, AH: ah})
		from.good(1)
		wc := b.good(1)[0]
		src, _ := netip.AddrFromSlice(got[32:36])
		must.Equal(t, "wc.SrcQP", wc.SrcQP, from.id.QPN)
		must.Equal(t, "wc.Len", wc.Len, 140)
		if !bytes.Equal(got[40:], pattern(100, 3)) {
			t.Fatalf("got[40:]: %.64x, want %.64x", got[40:], pattern(100, 3))
		}
		must.Equal(t, "src", src, from.id.Addr)
		back := from.recv(2, 40+8)
		b.post(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{pattern(8, 4)}, AH: &rnic.AddressHandle{Addr: src, QPN: wc.SrcQP, QKey: testQKey}})
		b.good(1)
		from.good(1)
		if !bytes.Equal(back[40:], pattern(8, 4)) {
			t.Error("the answer is not what was sent")
		}
	}
}

// TestIPv6: RC works over IPv6's single loopback address, where both QPs share a port.
func TestIPv6(t *testing.T) {
	c, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		machine.Skip(t, "no IPv6 on loopback: "+err.Error())
	}
	c.Close()
	o := Options{Port: uint16(machine.Port(t))}
	a, b := pairAt(t, rnic.RC, o, 4096, netip.IPv6Loopback(), netip.IPv6Loopback())
	operations(t, a, b, []int{1, 100_000})
}
