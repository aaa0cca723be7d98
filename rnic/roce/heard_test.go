// Packets on a queue pair during Accept.

package roce

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestPacketBeforeREP: a packet on a requested queue pair before the REP leaves finds its
// connection.
func TestPacketBeforeREP(t *testing.T) {
	m := meet(t, Options{})
	a, b := newSide(t, m.dev, rnic.RC), newSide(t, m.dev, rnic.RC)
	connected, accepted := make(chan error, 1), make(chan error, 1)
	go func() { connected <- m.dev.Connect(t.Context(), a.qp, m.addr, rnic.ConnParams{}) }()
	req, err := m.l.Accept(t.Context())
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	r, e := req.(*connRequest), rnic.EndpointOf(b.qp).(*endpoint)
	r.c.mu.Lock() // the REP waits
	go func() { accepted <- r.Accept(b.qp, rnic.ConnParams{}) }()
	for e.accepting.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	found := e.accepting.Load().k
	r.c.mu.Unlock()
	if found != r.k {
		t.Errorf("connection of the queue pair: %p, want %p", found, r.k)
	}
	for what, over := range map[string]chan error{"Accept": accepted, "Connect": connected} {
		if err := <-over; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
