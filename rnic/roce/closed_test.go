// Peers that a socket cannot reach, and QPs that are closed early.

package roce

import (
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestOtherFamily: a peer whose address is not of the socket's family is never reached, and ends
// what is sent to it.
func TestOtherFamily(t *testing.T) {
	at, _ := hosts(t)
	for _, service := range []rnic.Service{rnic.RC, rnic.UC} {
		s := newSide(t, Open(rnic.DeviceConfig{}), service).bind(at)
		s.connect(OutOfBand{Peer: Identity{Addr: netip.IPv6Loopback(), QPN: 5}, Timeout: 4, Retries: 1})
		s.post(rnic.SendWR{Op: rnic.OpSend})
		if wc := s.wait(1)[0]; wc.Status == rnic.WCSuccess {
			t.Error(service, wc)
		}
	}
}

// TestClosedWhileConnecting: a QP that is closed before its request leaves has none, and its port
// is not kept.
func TestClosedWhileConnecting(t *testing.T) {
	at, to := hosts(t)
	s := newSide(t, Open(rnic.DeviceConfig{}), rnic.RC).bind(at)
	e := rnic.EndpointOf(s.qp).(*endpoint)
	b := e.bound.Load()
	s.qp.Close()
	if err := e.request(t.Context(), b, netip.AddrPortFrom(to, service), &rnic.ConnParams{}, 1024); err != rnic.ErrClosed {
		t.Error(err)
	}
	if b.port.users != 0 {
		t.Error(b.port.users)
	}
}

// TestAcceptAfterClose: a request that Accept has returned outlives its listener, and the port it.
func TestAcceptAfterClose(t *testing.T) {
	m := meet(t, Options{})
	a, b := newSide(t, m.dev, rnic.RC), newSide(t, m.dev, rnic.RC)
	connected := make(chan error, 1)
	go func() { connected <- m.dev.Connect(t.Context(), a.qp, m.addr, rnic.ConnParams{}) }()
	req, err := m.l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.l.Close()
	if err := req.Accept(b.qp, rnic.ConnParams{}); err != nil {
		t.Error(err)
	}
	if err := <-connected; err != nil {
		t.Fatal(err)
	}
	operations(t, a, b, []int{1000})
}
