// Large transfers yield to small calls.

package iwarp

import (
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/internal/rxwait"
)

// transferred is the number of bytes that a test of large transfers receives.
const transferred = 8 << 20

// A roomySink takes all input.
type roomySink struct{ p [64 << 10]byte }

func (s *roomySink) aim() (head, rest []byte, ok bool) { return nil, s.p[:], true }
func (s *roomySink) release(int, bool)                 {}
func (s *roomySink) blocksThread() bool                { return false }

// pipeLink returns one end of a loopback connection, and the link over the other one.
func pipeLink(t testing.TB) (*net.TCPConn, *tcpLink) {
	t.Helper()
	c, d := pipeTCP(t)
	l, err := newTCPLink(d, new(rxwait.Inputs))
	if err != nil {
		t.Fatalf("newTCPLink: %v", err)
	}
	return c, l
}

// A batch yields if its stream has large transfers, and a small call has come since the last yield.
// Batches of other streams do not yield.
func TestBatchesYieldToCalls(t *testing.T) {
	const batches = 20
	a, b := joined(t, rnic.DeviceConfig{}, rnic.DeviceConfig{}, batches)
	for i := range uint64(batches) {
		recv(t, b.qp, i, make([]byte, 8))
	}
	tx := &streamOf(a.qp).tx
	other := rxwait.NewBlocker(&tx.s.p.inputs)
	id := uint64(0)
	batch := func(large int32) (yields uint64) {
		t.Helper()
		id++
		before := tx.callYields.Counts().Won
		tx.tcp.wait.large.Store(large)
		post(t, a.qp, rnic.SendWR{ID: id, Op: rnic.OpSend, SGL: [][]byte{{1}}})
		a.want(t, rnic.OpSend, id, rnic.WCSuccess)
		b.want(t, rnic.OpRecv, id-1, rnic.WCSuccess)
		return tx.callYields.Counts().Won - before
	}
	for range 3 {
		other.Input()
		if n := batch(0); n != 0 {
			t.Errorf("a batch of a small stream has yielded %d times", n)
		}
		if n := batch(largeInputs); n == 0 {
			t.Error("a batch of large transfers has not yielded after a small call")
		}
	}
	tx.yieldToCalls()
	before := tx.callYields.Counts().Won
	if tx.yieldToCalls(); tx.callYields.Counts().Won != before {
		t.Error("yields twice for one call")
	}
}
