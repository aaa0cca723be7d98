// Memory Regions: an index that is used again, and the sink of a Read that waits.

package core

import (
	"bytes"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/internal/stagsource"
)

// TestIndexReused: a region with the index of a deregistered one can be written, also by a QP that
// had written to the old one (RFC 5042 §6.1 [R5040-250]).
func TestIndexReused(t *testing.T) {
	fixSTags(t, func([]byte) byte { return 77 })
	s := scriptInitiator(t, rnic.ConnParams{})
	old, _ := s.pd.RegMR(make([]byte, 4), rnic.RemoteWrite)
	s.fpdu(tagged(0xc1, 0x40, old.STag(), old.Base(), []byte("old!")))
	if !holds(old, []byte("old!")) {
		t.Fatal("not placed")
	}
	index := byte(old.STag() >> 8)
	old.Dereg()
	fixSTags(t, func([]byte) byte { return index })
	mr, err := s.pd.RegMR(make([]byte, 4), rnic.RemoteWrite)
	if err != nil {
		t.Fatalf("RegMR: %v", err)
	}
	if mr.STag()>>8 != rnic.STag(index) || mr == old {
		t.Fatalf("STag %v, want a new region with the index %#x", mr.STag(), index)
	}
	s.fpdu(tagged(0xc1, 0x40, mr.STag(), mr.Base(), []byte("new!")))
	if !holds(mr, []byte("new!")) {
		t.Fatal("not placed")
	}
}

// fixSTags makes STags from small numbers: index and key come from next.
func fixSTags(t testing.TB, next func([]byte) byte) {
	was := stagsource.Read
	t.Cleanup(func() { stagsource.Read = was })
	stagsource.Read = func(b []byte) {
		n := next(b)
		copy(b, []byte{0, 0, n, n})
	}
}

// countSTags makes the STags 0x101, 0x202 and so on, by fixSTags.
func countSTags(t testing.TB) {
	n := byte(0)
	fixSTags(t, func([]byte) byte { n++; return n })
}

// TestSinkOfPostedRead: a waiting Read keeps its sink from posting time: memory registered
// meanwhile under the region is not read into (RFC 5040 §8.1.1 [R5040-209]).
func TestSinkOfPostedRead(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{ORD: 1})
	s.open()
	first, _ := s.pd.RegMR(make([]byte, 4), rnic.LocalWrite)
	sink, _ := s.pd.RegMR(make([]byte, 4), rnic.LocalWrite)
	stag := sink.STag()
	post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpRead, MR: first, Length: 4, RemoteSTag: 9},
		rnic.SendWR{ID: 2, Op: rnic.OpRead, MR: sink, Length: 4, RemoteSTag: 9})
	s.hearULPDU()
	other := make([]byte, 4)
	sink.Invalidate()
	sink.Rereg(other, rnic.LocalWrite)
	s.fpdu(tagged(0xc1, 0x42, first.STag(), first.Base(), []byte("abcd")))
	if got := s.hearULPDU(); !bytes.Equal(got[18:], readReq(stag, sink.Base(), 4, 9, 0)) {
		t.Fatalf("asked for %x, want the sink STag %x", got[18:], stag)
	}
	s.fpdu(tagged(0xc1, 0x42, stag, sink.Base(), []byte("evil")))
	s.c.Close()
	s.wantEnd(t, taggedFaults[rnic.MemSTag])
	if !bytes.Equal(other, make([]byte, 4)) {
		t.Fatal("the other buffer was read into")
	}
}
