// Order of effects: Reads after Writes and Sends, and unpredictable STags.

package core

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// asked makes the peer read an empty range of ours: the answer comes before all delayed work.
func (s *script) asked(msn uint32) {
	s.t.Helper()
	s.fpdu(untagged(0x41, 0x41, 0, 1, msn, 0, readReq(9, 9, 0, 0, 0)))
	s.wantSegment(tagged(0xc1, 0x42, 9, 9, nil))
}

// TestHeldBack: work delayed by ORD or a fence is not on the wire before a response has come.
func TestHeldBack(t *testing.T) {
	conformance.Proves(t, "R5040-159", "R5040-173", "R5040-174", "R5040-247", "R6581-027", "R8166-031")
	s := scriptInitiator(t, rnic.ConnParams{ORD: 2})
	s.open()
	sink, _ := s.pd.RegMR(make([]byte, 1), rnic.LocalWrite)
	for range 3 {
		post(t, s.qp, rnic.SendWR{Op: rnic.OpRead, MR: sink, Length: 1, RemoteSTag: 1})
	}
	post(t, s.qp, rnic.SendWR{Op: rnic.OpSend, Fence: true})
	answer := func() { s.fpdu(tagged(0xc1, 0x42, sink.STag(), sink.Base(), []byte{1})) }
	read := func(msn uint32) {
		t.Helper()
		s.wantSegment(untagged(0x41, 0x41, 0, 1, msn, 0, readReq(sink.STag(), sink.Base(), 1, 1, 0)))
	}
	read(1)
	read(2)
	s.asked(1) // the third Read waits for a slot
	answer()
	read(3)
	s.asked(2) // the Send waits for all Reads
	answer()
	s.asked(3)
	answer()
	s.wantSegment(untagged(0x41, 0x43, 0, 0, 1, 0, nil))
}
