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

// TestIndexReused: a region that got the index of one that is gone is written to,
// also by a QP that had written to the old one (R5040-250).
func TestIndexReused(t *testing.T) {
	s := scriptInitiator(t, ConnParams{})
	old, _ := s.pd.RegMR(make([]byte, 4), RemoteWrite)
	s.fpdu(tagged(0xc1, 0x40, old.STag(), old.Base(), []byte("old!")))
	until(t, func() bool { return old.holds([]byte("old!")) })
	old.Dereg()
	mr := &MR{pd: s.pd, index: old.index, base: old.base, buf: make([]byte, 4), access: RemoteWrite, valid: true}
	mr.stag.Store(uint32(old.STag()) + 1)
	sh := s.dev.stags.shard(mr.index)
	sh.mu.Lock()
	sh.m[mr.index] = mr
	sh.mu.Unlock()
	s.fpdu(tagged(0xc1, 0x40, mr.STag(), mr.Base(), []byte("new!")))
	until(t, func() bool { return mr.holds([]byte("new!")) })
}

// TestSinkOfPostedRead: a Read that waits for its turn keeps the sink that it was
// posted with: what the region is made to name meanwhile is not read into (R5040-209).
func TestSinkOfPostedRead(t *testing.T) {
	s := scriptInitiator(t, ConnParams{ORD: 1})
	s.open()
	first, _ := s.pd.RegMR(make([]byte, 4), LocalWrite)
	sink, _ := s.pd.RegMR(make([]byte, 4), LocalWrite)
	stag := sink.STag()
	post(t, s.qp, SendWR{ID: 1, Op: OpRead, MR: first, Length: 4, RemoteSTag: 9},
		SendWR{ID: 2, Op: OpRead, MR: sink, Length: 4, RemoteSTag: 9})
	s.hearULPDU()
	other := make([]byte, 4)
	sink.Invalidate()
	sink.Rereg(other, LocalWrite)
	s.fpdu(tagged(0xc1, 0x42, first.STag(), first.Base(), []byte("abcd")))
	if got := s.hearULPDU(); !bytes.Equal(got[18:], readReq(stag, sink.Base(), 4, 9, 0)) {
		t.Fatalf("asked for %x, want the sink STag %x", got[18:], stag)
	}
	s.fpdu(tagged(0xc1, 0x42, stag, sink.Base(), []byte("evil")))
	s.c.Close()
	s.wantEnd(t, writeFaults[memSTag])
	if !bytes.Equal(other, make([]byte, 4)) {
		t.Fatal("the other buffer was read into")
	}
}
