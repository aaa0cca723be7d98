// Memory Regions: what holds however their ends meet.

package rnic

import (
	"bytes"
	"testing"
)

// TestInvalidateTwice: Invalidate lets go of the memory also when somebody else has made
// the region invalid and has not come to that (R5040-209).
func TestInvalidateTwice(t *testing.T) {
	s := scriptInitiator(t, ConnParams{})
	s.open()
	mr, _ := s.pd.RegMR(bytes.Repeat([]byte{7}, 32<<20), RemoteRead)
	s.fpdu(untagged(0x41, 0x41, 0, 1, 1, 0, readReq(9, 0, 32<<20, mr.STag(), mr.Base())))
	until(t, func() bool { return mr.txRefs.Load() > 0 && s.qp.tx.stuck() })
	mr.mu.Lock() // as a remote invalidation does first
	mr.valid, mr.buf = false, nil
	mr.mu.Unlock()
	mr.Invalidate()
	if n := mr.txRefs.Load(); n != 0 {
		t.Fatalf("%d ranges on their way to TCP still point into the memory", n)
	}
}

// stuck says whether a batch waits for TCP to take it.
func (t *transmitter) stuck() bool {
	t.qp.sq.mu.Lock()
	loop := t.qp.sq.onLoop
	t.qp.sq.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	return loop && !t.b.empty()
}
