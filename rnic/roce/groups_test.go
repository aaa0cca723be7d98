// Multicast through sockets: on loopback, and between two network namespaces.

package roce

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// datagramSide returns a UD QP in RTS at an address.
func datagramSide(t *testing.T, at netip.Addr) *side {
	t.Helper()
	s := newSide(t, OpenWith(rnic.DeviceConfig{}, Options{}), rnic.UD).bind(at)
	s.connect(OutOfBand{})
	return s
}

func (s *side) join(group netip.Addr) rnic.AddressHandle {
	s.t.Helper()
	ah, err := s.qp.Join(group)
	if err != nil {
		s.t.Fatalf("Join: %v", err)
	}
	return ah
}

// sendsTo sends a datagram, and checks that only the given sides receive it: each other side's next
// message is a later datagram sent to it alone.
func (s *side) sendsTo(ah rnic.AddressHandle, some []*side, others ...*side) {
	s.t.Helper()
	data := pattern(200, int(ah.QPN)+len(some))
	var got [][]byte
	all := append(append([]*side(nil), some...), others...)
	for _, to := range all {
		got = append(got, to.recv(1, packet.GRHLen+200), to.recv(2, packet.GRHLen+200))
	}
	s.post(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{data}, AH: &ah})
	s.good(1)
	for i, to := range some {
		wc := to.good(1)[0]
		g := got[2*i]
		if int(wc.Len) != packet.GRHLen+200 || wc.SrcQP != s.id.QPN || !bytes.Equal(g[packet.GRHLen:], data) {
			s.t.Errorf("member %d: %v", i, wc)
		}
		if dst, _ := netip.AddrFromSlice(g[packet.GRHLen-len(ah.Addr.AsSlice()) : packet.GRHLen]); dst != ah.Addr {
			s.t.Errorf("member %d: the header in front says %v", i, dst)
		}
	}
	for i, to := range all {
		want := 1
		if i < len(some) {
			want = 2
		}
		s.post(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{data[:8]}, AH: &rnic.AddressHandle{Addr: to.id.Addr, QPN: to.id.QPN, QKey: testQKey}})
		s.good(1)
		if wc := to.good(1)[0]; int(wc.Len) != packet.GRHLen+8 || int(wc.ID) != want {
			s.t.Errorf("side %d of %d: %v", i, len(all), wc)
		}
		if want == 1 { // the second receive is left
			s.post(rnic.SendWR{Op: rnic.OpSend, AH: &rnic.AddressHandle{Addr: to.id.Addr, QPN: to.id.QPN, QKey: testQKey}})
			s.good(1)
			to.good(1)
		}
	}
}

// multicasts tests a group. Its sender is on one host. The listener and further members are on
// another; the argument there runs functions on that host.
func multicasts(t *testing.T, sender, listener *side, more func() *side, there func(func()), group netip.Addr) {
	t.Helper()
	second, third := more(), more()
	var ah rnic.AddressHandle
	there(func() { ah = listener.join(group) })
	if ah != listener.join(group) { // joining twice counts once
		t.Error("another address handle")
	}
	if ah != (rnic.AddressHandle{Addr: group, QPN: core.MulticastQPN, QKey: testQKey}) {
		t.Errorf("%+v", ah)
	}
	sender.sendsTo(ah, []*side{listener}, second, third) // the sender need not be a member
	there(func() { second.join(group) })
	sender.sendsTo(ah, []*side{listener, second}, third)
	listener.qp.Leave(group)
	listener.qp.Leave(group)
	sender.sendsTo(ah, []*side{second}, listener, third)
	sender.join(group)
	own := sender.recv(9, packet.GRHLen+8)
	second.recv(9, packet.GRHLen+8)
	sender.post(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{pattern(8, 5)}, AH: &ah})
	sender.good(2) // the datagram is sent, and received
	second.good(1)
	if !bytes.Equal(own[packet.GRHLen:], pattern(8, 5)) {
		t.Error("the sender's own copy is not what was sent")
	}
	sender.qp.Leave(group)
	second.qp.Close() // leaves the group, too
	p := portOf(t, listener.id.Addr)
	p.groups.mu.Lock()
	defer p.groups.mu.Unlock()
	if len(p.groups.all) != 0 {
		t.Errorf("the port is still a member of %v", p.groups.all)
	}
}

// TestMulticastLoopback: members at two loopback addresses get the group's datagrams.
func TestMulticastLoopback(t *testing.T) {
	conformance.Proves(t, "IBU-182", "IBU-183")
	a, b := hosts(t)
	more := func() *side { return datagramSide(t, b) }
	multicasts(t, datagramSide(t, a), more(), more, func(f func()) { f() }, netip.AddrFrom4([4]byte{239, a.As4()[1], a.As4()[2], a.As4()[3]}))
}

// TestJoinRefused: a group needs a UD QP with an address, and a multicast address in its family.
func TestJoinRefused(t *testing.T) {
	at, _ := hosts(t)
	group := netip.MustParseAddr("239.1.2.3")
	u := newSide(t, OpenWith(rnic.DeviceConfig{}, Options{}), rnic.UD)
	if _, err := u.qp.Join(group); !errors.Is(err, errNotBound) {
		t.Errorf("Join: %v, want %v", err, errNotBound)
	}
	s := datagramSide(t, at)
	for _, g := range []string{"10.1.2.3", "ff05::7"} {
		if _, err := s.qp.Join(netip.MustParseAddr(g)); err == nil {
			t.Errorf("joined %s", g)
		}
	}
	if c := newSide(t, s.dev, rnic.UC).bind(at); true {
		if _, err := c.qp.Join(group); !errors.Is(err, core.ErrGroup) {
			t.Errorf("Join: %v, want %v", err, core.ErrGroup)
		}
	}
	early := newSide(t, s.dev, rnic.UD).bind(at) // not established yet
	early.join(group)
	early.qp.Close()
	if p := portOf(t, at); len(p.groups.all) != 0 {
		t.Errorf("the port is still a member of %v", p.groups.all)
	}
	s.qp.Close()
	if _, err := s.qp.Join(group); err == nil {
		t.Error("a QP that was closed has joined")
	}
}
