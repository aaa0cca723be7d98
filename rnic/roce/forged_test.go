// Requests from a socket other than the RoCE one at the same address.

package roce

import (
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestSender: a request has its sending socket's port, so that no local user can impersonate the
// owner of the RoCE port at the same address.
func TestSender(t *testing.T) {
	m := meet(t, Options{})
	at, _ := hosts(t)
	newSide(t, m.dev, rnic.RC).bind(at) // the victim, which has sent no request
	w := ask(t, m, at)
	req, err := m.l.Accept(t.Context())
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	defer req.Reject(nil)
	local, remote := req.(rnic.DatagramRequest).Sockets()
	if remote != w.Local() || remote.Port() == UDPPort || local.Port() != UDPPort {
		t.Errorf("from %v to %v; sent from %v", remote, local, w.Local())
	}
}

// TestHalfOpenFollowsMaxHandshakes: the largest limit of the listeners at an address bounds its
// half-open connections.
func TestHalfOpenFollowsMaxHandshakes(t *testing.T) {
	m := meet(t, Options{})
	to := netip.MustParseAddrPort(m.addr)
	m.l.Close()
	from, _ := hosts(t)
	for _, most := range []int{8, 40} {
		dev := OpenWith(rnic.DeviceConfig{MaxHandshakes: most}, Options{})
		l, err := dev.Listen("udp", m.addr)
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		less, err := OpenWith(rnic.DeviceConfig{MaxHandshakes: 4}, Options{}).Listen("udp", netip.AddrPortFrom(to.Addr(), to.Port()+1).String())
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		for range most {
			ask(t, m, from)
		}
		c := &l.(*listener).ports[0].control
		// One source may hold a quarter.
		must.Become(t, "the oldest make room", func() bool { return c.counters().Evicted == uint64(most-most/4) })
		l.Close()
		less.Close()
	}
}

// TestAbandon: an Accept without the peer's confirmation ends when the program abandons it.
func TestAbandon(t *testing.T) {
	m := meet(t, Options{})
	at, _ := hosts(t)
	ask(t, m, at)
	req, err := m.l.Accept(t.Context())
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	s := newSide(t, m.dev, rnic.RC)
	accepted := make(chan error)
	go func() { accepted <- req.Accept(s.qp, rnic.ConnParams{}) }()
	select {
	case err := <-accepted:
		t.Fatalf("accepted before an RTU: %v", err)
	case <-time.After(20 * time.Millisecond): // by now it usually waits
	}
	for range 2 {
		req.(rnic.DatagramRequest).Abandon()
	}
	if err := <-accepted; err != rnic.ErrClosed || s.qp.State() != rnic.StateIdle {
		t.Error(err, s.qp.State())
	}
}

// ask sends one request to m's listener, from another port at an address.
func ask(t *testing.T, m *meeting, at netip.Addr) udp.Wire {
	t.Helper()
	w, err := udp.Open(netip.AddrPortFrom(at, 0))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { w.Close() })
	to := netip.MustParseAddrPort(m.addr)
	forger := cm.New(cm.Config{Addr: at, GUID: 1, MTU: mtuCode(1024), Rand: random64})
	if _, err := forger.Connect(1, cm.Request{Peer: to.Addr(), Service: mad.IPService(mad.ProtocolTCP, to.Port()),
		Local: cm.QP{QPN: core.GSI + 1, PathMTU: mtuCode(1024), Transport: mad.ServiceRC}}); err != nil {
		t.Fatalf("Connect: %v", err)
	}
	var d cm.Datagram
	for forger.PollSend(&d) {
		if err := w.Add(len(d.Append(w.Room()[:0], 0)), packet.Tail{}, netip.AddrPortFrom(to.Addr(), UDPPort)); err != nil {
			t.Fatalf("Add: %v", err)
		}
	}
	if n, _, err := w.Send(); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	return w
}
