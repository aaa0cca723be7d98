// Peers that a socket cannot reach, and QPs closed early.

package roce

import (
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestOtherFamily: a peer with an address outside the socket's family is unreachable, and work
// sent to it fails.
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

// TestClosedWhileConnecting: a QP closed before its request leaves sends none, and releases its
// port.
func TestClosedWhileConnecting(t *testing.T) {
	at, to := hosts(t)
	s := newSide(t, Open(rnic.DeviceConfig{}), rnic.RC).bind(at)
	e := rnic.EndpointOf(s.qp).(*endpoint)
	b := e.bound.Load()
	s.qp.Close()
	if err := e.request(t.Context(), b, netip.AddrPortFrom(to, service), &rnic.ConnParams{}, 1024); err != rnic.ErrClosed {
		t.Errorf("request: %v, want %v", err, rnic.ErrClosed)
	}
	if b.port.users != 0 {
		t.Error(b.port.users)
	}
}

// TestAcceptAfterClose: a request returned by Accept outlives its listener, and so does its port.
func TestAcceptAfterClose(t *testing.T) {
	m := meet(t, Options{})
	a, b := newSide(t, m.dev, rnic.RC), newSide(t, m.dev, rnic.RC)
	connected := make(chan error, 1)
	go func() { connected <- m.dev.Connect(t.Context(), a.qp, m.addr, rnic.ConnParams{}) }()
	req, err := m.l.Accept(t.Context())
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	m.l.Close()
	if err := req.Accept(b.qp, rnic.ConnParams{}); err != nil {
		t.Errorf("Accept: %v", err)
	}
	if err := <-connected; err != nil {
		t.Fatalf("connected: %v", err)
	}
	operations(t, a, b, []int{1000})
}
