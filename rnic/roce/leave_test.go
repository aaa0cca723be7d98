// Built packets leave before the socket is closed.

package roce

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// A slowWire delays each batch, and calls unsent if it is closed before it has sent the first.
// Later batches answer a message that the peer repeated meanwhile, and can be lost.
type slowWire struct {
	sent atomic.Bool
	udp.Wire
	shut   chan struct{}
	once   sync.Once
	unsent func()
}

func (w *slowWire) Send() (int, bool, error) {
	select {
	case <-w.shut:
		if !w.sent.Load() {
			w.unsent()
		}
		return 0, false, net.ErrClosed
	case <-time.After(20 * time.Millisecond): // with the bug under test the wire is closed earlier
		w.sent.Store(true)
		return w.Wire.Send()
	}
}

func (w *slowWire) Close() error {
	w.once.Do(func() { close(w.shut) })
	return w.Wire.Close()
}

// TestDisconnectSendsTheLastAcknowledge: a side that disconnects right after a message still
// acknowledges it.
func TestDisconnectSendsTheLastAcknowledge(t *testing.T) {
	at, to := hosts(t)
	slow := Options{Wrap: func(w udp.Wire) udp.Wire {
		return &slowWire{Wire: w, shut: make(chan struct{}), unsent: func() { t.Error("the socket was closed with a packet to send") }}
	}}
	a := newSide(t, OpenWith(rnic.DeviceConfig{}, Options{}), rnic.RC).bind(at)
	b := newSide(t, OpenWith(rnic.DeviceConfig{}, slow), rnic.RC).bind(to)
	a.connect(OutOfBand{Peer: b.id})
	b.connect(OutOfBand{Peer: a.id})
	b.recv(1, 100)
	a.post(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{make([]byte, 100)}})
	b.good(1)
	if err := b.qp.Disconnect(t.Context()); err != nil {
		t.Errorf("Disconnect: %v", err)
	}
	a.good(1)
}

// TestBindFor: a QP is bound to the source address for its peer, or to a neighboring one if
// another process has that port.
func TestBindFor(t *testing.T) {
	loopback := netip.MustParseAddr("127.0.0.1")
	port := uint16(machine.Port(t))
	dev := OpenWith(rnic.DeviceConfig{}, Options{Port: port})
	a := newSide(t, dev, rnic.UD)
	id, err := BindFor(a.qp, loopback, testQKey)
	if err != nil || !id.Addr.IsLoopback() || id.QPN == 0 || id.MTU != 4096 {
		t.Errorf("%+v, %v", id, err)
	}
	if _, err := BindFor(a.qp, loopback, testQKey); err == nil {
		t.Error("bound twice")
	}
	a.qp.Close()
	other, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)})
	if err != nil {
		t.Fatalf("ListenUDP: %v", err)
	}
	defer other.Close()
	b := newSide(t, dev, rnic.UD)
	if id, err = BindFor(b.qp, loopback, testQKey); err != nil || id.Addr == loopback || !id.Addr.IsLoopback() {
		t.Errorf("%+v, %v", id, err)
	}
}
