// What may happen before a batch has left: completions are told, and a peer answers early.

package rnic

import (
	"errors"
	"net"
	"testing"
	"time"
)

// TestCompletionToldBeforeSocketHasRoom: a Send that TCP has taken completes at once,
// though what follows it fills the socket and the peer reads nothing.
func TestCompletionToldBeforeSocketHasRoom(t *testing.T) {
	s := scriptInitiator(t, ConnParams{})
	s.c.(*net.TCPConn).SetReadBuffer(4096)
	s.open()
	told := make(chan struct{})
	s.cq.SetHandler(func() {
		var wcs [16]WC
		for n := s.cq.Poll(wcs[:]); n > 0; n = s.cq.Poll(wcs[:]) {
			for _, wc := range wcs[:n] {
				if wc.ID == 7 {
					close(told)
				}
			}
		}
	})
	until(t, func() bool {
		s.qp.sq.mu.Lock()
		defer s.qp.sq.mu.Unlock()
		return !s.qp.sq.gated
	})
	s.qp.link.conn().(*net.TCPConn).SetWriteBuffer(64 << 10)
	if err := s.qp.PostSend(SendWR{ID: 7, Op: OpSend, SGL: [][]byte{[]byte("small")}},
		SendWR{ID: 8, Op: OpWrite, SGL: [][]byte{make([]byte, 64<<20)}, RemoteSTag: 1}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-told:
	case <-time.After(time.Minute):
		t.Error("the handler was not told of a Send that TCP has taken")
	}
}

// TestAnswerBeforeRequest: a response that comes while the Read Request is being
// made answers no Read: the stream ends by a Terminate, and the entry in the send queue stays
// what it was until its request stands in the batch.
func TestAnswerBeforeRequest(t *testing.T) {
	for _, size := range []uint32{0, 16} {
		s := scriptInitiator(t, ConnParams{})
		s.open()
		mr, err := s.pd.RegMR(make([]byte, 64), LocalWrite)
		if err != nil {
			t.Fatal(err)
		}
		until(t, func() bool {
			s.qp.sq.mu.Lock()
			defer s.qp.sq.mu.Unlock()
			return !s.qp.sq.gated && !s.qp.sq.active
		})
		s.qp.sq.mu.Lock()
		s.qp.sq.active = true // the test transmits
		s.qp.sq.mu.Unlock()
		if err := s.qp.PostSend(SendWR{ID: 1, Op: OpRead, MR: mr, Length: size, RemoteSTag: 5}); err != nil {
			t.Fatal(err)
		}
		tx := &s.qp.tx
		tx.mu.Lock()
		tx.b.reset()
		tx.mss, tx.mulpdu = 1400, 1300
		if !tx.pick() {
			t.Fatal("no work request was taken")
		}
		s.fpdu(tagged(0xc1, 0x42, mr.STag(), mr.Base(), make([]byte, size)))
		until(t, s.qp.hasFailed)
		if err := tx.segment(); err != nil || tx.b.left == 0 {
			t.Errorf("size %d: the request could not be made: %v", size, err)
		}
		s.qp.sq.mu.Lock()
		if s.qp.sq.head != 0 {
			t.Errorf("size %d: a Read that was not asked for yet has completed", size)
		}
		s.qp.sq.active = false
		s.qp.sq.mu.Unlock()
		tx.mu.Unlock()
		if err := s.qp.Err(); !errors.Is(err, errNoRead) {
			t.Errorf("size %d: ended by %v", size, err)
		}
	}
}
