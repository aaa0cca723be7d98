// Work in progress at the end of a stream: it is flushed once, and later events find none of it.

package core

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestClosedTakesNoPosts: after Close no post is accepted, and accepted work is awaited.
func TestClosedTakesNoPosts(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	s.end.room = 0
	post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend})
	drained := s.end.work.Close()
	if err := s.qp.PostSend(rnic.SendWR{ID: 2, Op: rnic.OpSend}); !errors.Is(err, rnic.ErrState) {
		t.Errorf("a post after Close: %v", err)
	}
	select {
	case <-drained:
		t.Error("drained before TCP has taken it")
	default:
	}
	s.end.grant(1 << 20)
	<-drained
	s.want(t, rnic.OpSend, 1, rnic.WCSuccess)
}

// TestFlushForgetsResponses: an unsent response is not outstanding after the end, and the wait for
// the drained queue ends.
func TestFlushForgetsResponses(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	mr, _ := s.pd.RegMR(make([]byte, 100), rnic.RemoteRead)
	s.end.room = 0
	s.fpdu(untagged(0x41, 0x41, 0, 1, 1, 0, readReq(9, 9, 100, mr.STag(), mr.Base())))
	w := &s.end.work
	drained := w.Close()
	if !w.Outstanding() {
		t.Fatal("nothing is to be sent")
	}
	s.end.fail(rnic.ErrConnLost)
	select {
	case <-drained:
	default:
		t.Error("nobody is told that nothing is left")
	}
	if w.Outstanding() || w.irq.waiting() {
		t.Error("a response is outstanding after the end")
	}
}

// TestFlushForgetsReads: the response to a flushed Read completes nothing.
func TestFlushForgetsReads(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	sink, _ := s.pd.RegMR(make([]byte, 1), rnic.LocalWrite)
	post(t, s.qp, rnic.SendWR{ID: 1, Op: rnic.OpRead, MR: sink, Length: 1, RemoteSTag: 1})
	w := &s.end.work
	if w.readsMade() != 1 {
		t.Fatal("no Read is outstanding")
	}
	s.end.fail(rnic.ErrConnLost)
	s.want(t, rnic.OpRead, 1, rnic.WCFlushErr)
	if w.readsMade() != 0 {
		t.Error("a Read is outstanding after the end")
	}
	if err := w.readsDone(1); err != nil {
		t.Errorf("readsDone: %v", err)
	}
	if n := s.cq.Poll(make([]rnic.WC, 1)); n > 0 || w.reads.count() != 0 {
		t.Errorf("it has completed twice: %d completions, %d Reads", n, w.reads.count())
	}
}

// TestFlushDuringInvalidation: a local invalidation waits, without the lock, for a placement. If
// the stream ends meanwhile, the invalidation's entry is flushed, and not begun afterwards.
func TestFlushDuringInvalidation(t *testing.T) {
	s := scriptInitiator(t, rnic.ConnParams{})
	s.open()
	mr, _ := s.pd.RegMR(make([]byte, 1), rnic.RemoteWrite)
	q, w := s.end.q, &s.end.work
	if _, f := q.Borrow(mr, mr.STag(), mr.Base(), 1, rnic.RemoteWrite); f != rnic.MemOK {
		t.Fatalf("Borrow: %v", f)
	}
	posted := make(chan error)
	go func() { posted <- s.qp.PostSend(rnic.SendWR{ID: 1, Op: rnic.OpLocalInvalidate, MR: mr}) }()
	for stacks := make([]byte, 1<<20); ; { // until it waits there
		if bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("rnic.(*MR).Invalidate(")) {
			break
		}
		runtime.Gosched()
	}
	w.Flush()
	q.Return(mr)
	if err := <-posted; err != nil {
		t.Errorf("post: %v", err)
	}
	s.want(t, rnic.OpLocalInvalidate, 1, rnic.WCFlushErr)
	if from, to := w.sq.Begun(); from != to || w.Outstanding() {
		t.Errorf("entries %d to %d are under way after the end", from, to)
	}
}
