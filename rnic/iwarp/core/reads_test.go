// The rings of Reads: their counters pass 2^32 with work in them.

package core

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestReadRingsWrap: the counters of Reads pass 2^32, of ours and of the peer's.
func TestReadRingsWrap(t *testing.T) {
	a, b := newSide(t, rnic.DeviceConfig{}, 4), newSide(t, rnic.DeviceConfig{}, 4)
	join(a, b)
	const at = 1<<32 - 3
	for _, s := range []*side{a, b} {
		r, q := &s.end.work.reads, &s.end.work.irq
		r.head, r.tail = at, at
		q.head, q.built, q.next, q.tail = at, at, at, at
	}
	for range 3 {
		transfers(t, a, b)
		transfers(t, b, a)
	}
}

// TestBuiltResponseFreesIRD: a response that is whole in a batch does not count any more, for the peer may
// have it, and its next Read be here, before the call that hands it to TCP has returned.
func TestBuiltResponseFreesIRD(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{IRD: 1})
	s.open()
	mr, _ := s.pd.RegMR([]byte{1, 2}, rnic.RemoteRead)
	s.end.room = 0
	for i := range uint64(2) {
		s.fpdu(untagged(0x41, 0x41, 0, 1, uint32(i+1), 0, readReq(9, i, 1, mr.STag(), mr.Base()+i)))
	}
	if err := s.qp.Err(); err != nil {
		t.Fatal(err)
	}
	s.end.grant(1 << 20)
	for i := range uint64(2) {
		s.wantSegment(tagged(0xc1, 0x42, 9, i, []byte{byte(i + 1)}))
	}
}
