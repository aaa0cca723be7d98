// The receive loop answers in the middle of a large batch.

package roce

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// A lateWire receives packets late, so that batches are large, and notes how many packets of a
// batch were handled before the first answer.
type lateWire struct {
	udp.Wire
	of netip.Addr

	mu     sync.Mutex
	looked int // guarded by mu, as are the fields below: packets of the batch
	added  bool
	large  int // batches of more than packetsPerTurn packets
	over   int // large batches with more than packetsPerTurn packets handled before an answer
}

func (w *lateWire) Receive(look bool) (int, error) {
	time.Sleep(time.Millisecond)
	n, err := w.Wire.Receive(look)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked, w.added = 0, false
	if n > packetsPerTurn {
		w.large++
	}
	return n, err
}

func (w *lateWire) Packet(i int) (network, datagram []byte, good bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.looked++; !w.added && w.looked == packetsPerTurn+1 {
		w.over++
	}
	return w.Wire.Packet(i)
}

func (w *lateWire) Add(n int, t packet.Tail, to netip.AddrPort) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.added = true
	return w.Wire.Add(n, t, to)
}

// A peer's whole window comes in one batch, and its beginning is acknowledged before the end is
// handled, so that the peer continues sending.
func TestLargeBatchIsAnsweredInParts(t *testing.T) {
	at, to := hosts(t)
	late := &lateWire{of: to}
	x, y := pairAt(t, rnic.RC, Options{Wrap: func(w udp.Wire) udp.Wire {
		if w.Local().Addr() != late.of {
			return w
		}
		late.Wire = w
		return late
	}}, 1024, at, to)
	mr, _ := y.region(1<<18, rnic.RemoteWrite)
	data := make([]byte, 1<<18)
	for range 20 {
		x.post(rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{data}, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
		x.good(1)
	}
	late.mu.Lock()
	defer late.mu.Unlock()
	if late.large == 0 {
		t.Error("no batch was large")
	}
	// If another thread is sending already, it also sends these answers, sometimes late.
	if 4*late.over > late.large {
		t.Errorf("of %d large batches %d were looked at further before an answer", late.large, late.over)
	}
}
