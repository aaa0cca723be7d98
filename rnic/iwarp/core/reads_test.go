// The rings of Reads: their counters pass 2^32 during use.

package core

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestReadRingsWrap: the counters of Reads pass 2^32, for ours and the peer's.
func TestReadRingsWrap(t *testing.T) {
	a, b := newSide(t, rnic.DeviceConfig{}, 4), newSide(t, rnic.DeviceConfig{}, 4)
	join(a, b)
	const at = 1<<32 - 3
	for _, s := range []*side{a, b} {
		r, q := &s.end.work.reads, &s.end.work.irq
		r.head, r.made, r.tail = at, at, at
		q.head, q.built, q.next, q.tail = at, at, at, at
	}
	for range 3 {
		transfers(t, a, b)
		transfers(t, b, a)
	}
}

// TestBuiltResponseFreesIRD: a response complete in a batch does not count for the IRD any more:
// the peer may have it, and send its next Read, before the write to TCP has returned.
func TestBuiltResponseFreesIRD(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{IRD: 1})
	s.open()
	mr, _ := s.pd.RegMR([]byte{1, 2}, rnic.RemoteRead)
	s.end.room = 0
	for i := range uint64(2) {
		s.fpdu(untagged(0x41, 0x41, 0, 1, uint32(i+1), 0, readReq(9, i, 1, mr.STag(), mr.Base()+i)))
	}
	if err := s.qp.Err(); err != nil {
		t.Fatalf("Err: %v", err)
	}
	s.end.grant(1 << 20)
	for i := range uint64(2) {
		s.wantSegment(tagged(0xc1, 0x42, 9, i, []byte{byte(i + 1)}))
	}
}

// TestFaultSendsBuiltResponses: a response without its memory, revoked since the request, ends the
// stream, but the preceding response in the same batch leaves first.
func TestFaultSendsBuiltResponses(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	first, _ := s.pd.RegMR([]byte{1}, rnic.RemoteRead)
	second, _ := s.pd.RegMR([]byte{2}, rnic.RemoteRead)
	if !s.end.work.turn.take() { // so that nothing is built yet
		t.Fatalf("take: %v", s.end.work.turn)
	}
	for i, mr := range []*rnic.MR{first, second} {
		s.fpdu(untagged(0x41, 0x41, 0, 1, uint32(i+1), 0, readReq(9, uint64(i), 1, mr.STag(), mr.Base())))
	}
	second.Invalidate()
	s.end.send()
	s.wantSegment(tagged(0xc1, 0x42, 9, 0, []byte{1}))
	s.wantEnd(t, requestFaults[rnic.MemSTag])
}

// TestBegunResponseIsKept: a response in several batches keeps its entry until TCP has its last
// byte.
func TestBegunResponseIsKept(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{IRD: 1})
	s.open()
	mr, _ := s.pd.RegMR(make([]byte, 4*batchBytes), rnic.RemoteRead)
	s.end.room = 2 * batchBytes
	s.fpdu(untagged(0x41, 0x41, 0, 1, 1, 0, readReq(9, 0, 4*batchBytes, mr.STag(), mr.Base())))
	w := &s.end.work
	if !w.Outstanding() || w.readsRoom() > 0 {
		t.Error("a response that TCP has a half of has been dropped")
	}
	s.end.grant(1 << 30)
	if w.Outstanding() || w.readsRoom() <= 0 {
		t.Error("it is still there when TCP has all of it")
	}
}
