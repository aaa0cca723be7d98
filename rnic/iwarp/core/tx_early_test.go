// Events before a batch has left: completions, and early answers from a peer.

package core

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestAnswerBeforeRequest: a response that comes while the Read Request is being built answers no
// Read: the stream ends by a Terminate, and the entry in the send queue is unchanged until its
// request is in the batch.
func TestAnswerBeforeRequest(t *testing.T) {
	for _, size := range []uint32{0, 16} {
		s := scriptInitiator(t, rnic.ConnParams{})
		s.open()
		mr, err := s.pd.RegMR(make([]byte, 64), rnic.LocalWrite)
		if err != nil {
			t.Fatalf("RegMR: %v", err)
		}
		if !s.end.work.turn.take() { // the test transmits
			t.Fatalf("take: %v", s.end.work.turn)
		}
		if err := s.qp.PostSend(rnic.SendWR{ID: 1, Op: rnic.OpRead, MR: mr, Length: size, RemoteSTag: 5}); err != nil {
			t.Fatalf("PostSend: %v", err)
		}
		out := &s.end.out
		out.b.reset()
		out.SetMSS(1400)
		if !out.pick() {
			t.Fatal("no work request was taken")
		}
		a, err := s.end.in.check(tagged(0xc1, 0x42, mr.STag(), mr.Base(), make([]byte, size)), 14+int(size))
		if !errors.Is(err, errNoRead) {
			t.Errorf("size %d: %v, action %d", size, err, a.kind)
		}
		if added, err := out.segment(); err != nil || !added || out.b.left == 0 {
			t.Errorf("size %d: the request was not made: %v, added %v, %d bytes", size, err, added, out.b.left)
		}
		if from, _ := s.end.work.sq.Begun(); from != 0 {
			t.Errorf("size %d: a Read that was not asked for yet has completed", size)
		}
	}
}
