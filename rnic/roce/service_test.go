// The service loop of a port: when it sleeps, and whom it ends.

package roce

import (
	"math"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// TestControlIsBounded: while the socket takes nothing peers can have us keep answers for them, but
// not without end.
func TestControlIsBounded(t *testing.T) {
	p := stillPort(t)
	for range 2 * maxOut {
		p.control.do(func(m *cm.CM, at cm.Instant) {
			k, err := m.Connect(at, cm.Request{Peer: p.key.Addr(), Service: mad.IPService(mad.ProtocolTCP, service)})
			if err == nil {
				err = m.Disconnect(at, k, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	if n := len(p.control.take(nil)); n != maxOut {
		t.Error(n)
	}
}

// TestControlWaitsInOnePlace: datagrams that the transmitter has taken, and the socket has no room
// for, are sent before it takes more.
func TestControlWaitsInOnePlace(t *testing.T) {
	p := stillPort(t)
	for range 3 {
		p.control.mu.Lock()
		for range maxOut {
			p.control.out = append(p.control.out, cm.Datagram{To: p.key.Addr()})
		}
		p.control.mu.Unlock()
		p.tx.control = true
		p.tx.takeControl()
	}
	if n := len(p.tx.mads); n >= maxOut || !p.tx.control || p.tx.endTurn() {
		t.Errorf("%d wait", n)
	}
}

// TestUnboundIsNotEnded: a packet can be looked at while the QP that it was for is given up, before
// there was a connection. There is nothing to finish then, and a connection that the QP has later
// can end.
func TestUnboundIsNotEnded(t *testing.T) {
	at, to := hosts(t)
	s := newSide(t, Open(rnic.DeviceConfig{}), rnic.RC).bind(at)
	e := rnic.EndpointOf(s.qp).(*endpoint)
	was := e.bound.Load()
	_ = was.qp.Modify(core.ERR, 0, core.Attrs{})
	was.port.afterChange(e)
	e.unbind()
	s.bind(at).connect(OutOfBand{Peer: Identity{Addr: to, QPN: 0x123456}})
	s.qp.Abort(rnic.ErrClosed)
	<-s.qp.Done()
}

// stillPort is the port that s is bound to, with a transmitter that sends nothing; its loops have
// ended.
func stillPort(t *testing.T) *port {
	t.Helper()
	at, _ := hosts(t)
	s := newSide(t, Open(rnic.DeviceConfig{}), rnic.RC).bind(at)
	was := rnic.EndpointOf(s.qp).(*endpoint).bound.Load().port
	p := &port{key: was.key, wire: was.wire, core: was.core, wake: make(chan struct{}, 1)}
	p.tx.t, p.tx.busy = p, true
	p.control.init(p)
	return p
}

// TestServiceSleeps: a CM that waits for a time has the service loop sleep until then, not run
// without end; one that is given a time by somebody else wakes it.
func TestServiceSleeps(t *testing.T) {
	p := stillPort(t)
	p.tick.Store(math.MaxInt64) // as the loop does before it looks for the next time
	p.control.do(func(m *cm.CM, at cm.Instant) {
		if _, err := m.Connect(at, cm.Request{Peer: p.key.Addr(), Service: mad.IPService(mad.ProtocolTCP, service)}); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-p.wake:
	default:
		t.Error("a new deadline does not wake the loop")
	}
	if _, ok := p.control.run(); !ok {
		t.Error("no deadline")
	}
	select {
	case <-p.wake:
		t.Error("the loop wakes itself")
	default:
	}
}
