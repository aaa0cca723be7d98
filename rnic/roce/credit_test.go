// End-to-end flow control between two programs: the CM's negotiation, and the acknowledges'
// credits.

package roce

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// A creditWire reports an acknowledge with one credit after one message.
type creditWire struct {
	udp.Wire
	told chan struct{} // buffered, one element
	room []byte
}

func (w *creditWire) Packet(i int) (network, datagram []byte, good bool) {
	network, datagram, good = w.Wire.Packet(i)
	w.see(datagram)
	return network, datagram, good
}

func (w *creditWire) Room() []byte {
	w.room = w.Wire.Room()
	return w.room
}

func (w *creditWire) Add(n int, t packet.Tail, to netip.AddrPort) error {
	w.see(w.room[:n+packet.ICRCLen])
	return w.Wire.Add(n, t, to)
}

func (w *creditWire) see(datagram []byte) {
	h, _, err := packet.Parse(datagram)
	if err != nil || h.Opcode != packet.RCAck || h.AETH != (packet.AETH{Syndrome: packet.ACK(1), MSN: 1}) {
		return
	}
	select {
	case w.told <- struct{}{}:
	default:
	}
}

// idle reports whether no goroutine has the turn.
func (x *transmitter) idle() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.head == nil && !x.busy
}

// With Options.FlowControl both ends negotiate flow control, and obey each other's credits. A
// receive posted to an empty queue is reported at once.
func TestFlowControl(t *testing.T) {
	told := make(chan struct{}, 1)
	m := meet(t, Options{FlowControl: true, Wrap: func(w udp.Wire) udp.Wire { return &creditWire{Wire: w, told: told} }})
	a, b := m.connected(t, rnic.ConnParams{}, rnic.ConnParams{})
	for _, s := range []*side{a, b} {
		if _, attrs := rnic.EndpointOf(s.qp).(*endpoint).bound.Load().qp.Query(); !attrs.ObeyCredits || !attrs.GiveCredits {
			t.Errorf("%+v", attrs)
		}
	}
	b.recv(1, 10)
	a.post(rnic.SendWR{ID: 1})
	b.good(1)
	a.good(1) // by an acknowledge with zero credits
	b.recv(2, 10)
	for x := &rnic.EndpointOf(b.qp).(*endpoint).bound.Load().port.tx; !x.idle(); {
		runtime.Gosched()
	}
	select {
	case <-told:
	default: // otherwise the credits would leave only with the next message, after 15 s
		t.Fatal("no acknowledge tells of the receive")
	}
	a.post(rnic.SendWR{ID: 2})
	b.good(1)
	a.good(1)
	operations(t, a, b, []int{0, 1, 4097, 65_536, 1<<20 + 3})
	operations(t, b, a, []int{300_000})
}

// Without the option, or with a peer that shares its receive queue, there is no flow control.
func TestNoFlowControl(t *testing.T) {
	m := meet(t, Options{})
	a, b := m.connected(t, rnic.ConnParams{}, rnic.ConnParams{})
	for _, s := range []*side{a, b} {
		if _, attrs := rnic.EndpointOf(s.qp).(*endpoint).bound.Load().qp.Query(); attrs.ObeyCredits || attrs.GiveCredits {
			t.Errorf("%+v", attrs)
		}
	}
	for _, q := range []cm.QP{{}, {SRQ: true}, {FlowControl: true, SRQ: true}} {
		if sendsCredits(&q) {
			t.Errorf("%+v", q)
		}
	}
}

// Out of band nothing is negotiated: the first acknowledge decides.
func TestFlowControlOutOfBand(t *testing.T) {
	for _, o := range []Options{{}, {FlowControl: true}} {
		a, b := pair(t, rnic.RC, o, 1024)
		operations(t, a, b, []int{0, 1, 4097, 65_536})
	}
}
