// A port's service loop: its sleep, and the QPs that it ends.

package roce

import (
	"math"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// TestControlIsBounded: while the socket is full, peers can make us queue only a bounded number
// of answers.
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
		t.Errorf("len: %v, want %v", n, maxOut)
	}
}

// TestTakenDatagramsLeaveFirst: datagrams taken by the transmitter, but not by the full socket, are
// sent before it takes more.
func TestTakenDatagramsLeaveFirst(t *testing.T) {
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

// TestUnboundQPIsNotFinished: a packet can arrive while its QP is being unbound, before any
// connection. There is nothing to finish then, and a later connection on the QP can end.
func TestUnboundQPIsNotFinished(t *testing.T) {
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

// stillPort returns s's port, with a transmitter that sends nothing and its loops ended.
func stillPort(t *testing.T) *port {
	t.Helper()
	at, _ := hosts(t)
	s := newSide(t, Open(rnic.DeviceConfig{}), rnic.RC).bind(at)
	was := rnic.EndpointOf(s.qp).(*endpoint).bound.Load().port
	p := &port{key: was.key, wire: was.wire, core: was.core, wake: make(chan struct{}, 1), receiving: make(chan struct{}, 1)}
	p.tx.t, p.tx.busy = p, true
	p.control.init(p)
	return p
}

// TestServiceSleeps: the service loop sleeps until the CM's deadline instead of spinning; a new
// earlier deadline wakes it.
func TestServiceSleeps(t *testing.T) {
	p := stillPort(t)
	p.tick.Store(math.MaxInt64) // as the loop does before it computes the next deadline
	p.control.do(func(m *cm.CM, at cm.Instant) {
		if _, err := m.Connect(at, cm.Request{Peer: p.key.Addr(), Service: mad.IPService(mad.ProtocolTCP, service)}); err != nil {
			t.Errorf("Connect: %v", err)
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
