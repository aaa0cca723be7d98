// The verbs' part in driving: for providers without driving, and for handlers run by another
// goroutine.

package rnic

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A drivenEnd is an endpoint that can be driven.
type drivenEnd struct {
	inertEndpoint
	calls int
}

func (e *drivenEnd) PollUntil(func() bool) { e.calls++ }
func (e *drivenEnd) EnsureReceiver()       { e.calls++ }
func (e *drivenEnd) RecallReceiver()       { e.calls++ }
func (e *drivenEnd) FlushDeferred()        { e.calls++ }
func (e *drivenEnd) Uncork()               {}
func (e *drivenEnd) InputWaits() bool      { return false }

// TestDeferredIsReported: a provider without driving reports deferred completions at once.
func TestDeferredIsReported(t *testing.T) {
	for _, driven := range []bool{false, true} {
		_, cq, qp, ep := stillQP(t)
		de := &drivenEnd{}
		if driven {
			qp.scheduler = de
		}
		cq.SetHandler(func() {})
		var sq SendQueue[int]
		sq.Init(ep.q, 4, &sync.Pool{New: func() any { return new(SendChunk[int]) }})
		sq.Open()
		e := sq.At(sq.Push(&Posted{SendWR: SendWR{Hint: HintDeferred}}))
		sq.Begin()
		e.Done = true
		if !sq.Retire(nil) || ep.q.OwesNotify() == driven {
			t.Errorf("driven %v: owes %v", driven, ep.q.OwesNotify())
		}
		qp.PollUntil(nil)
		qp.EnsureReceiver()
		qp.RecallReceiver()
		qp.FlushDeferred()
		if want := map[bool]int{true: 4}[driven]; de.calls != want {
			t.Errorf("driven %v: %d calls", driven, de.calls)
		}
		qp.Close()
	}
}

// TestHandling: once Handling is false after a Notify, the handler has polled all completions
// pushed before that Notify, on whichever goroutine it ran.
func TestHandling(t *testing.T) {
	_, cq, qp, ep := stillQP(t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	handled, first := 0, true
	cq.SetHandler(func() {
		if first {
			first = false
			close(begun)
			<-goOn
		}
		var wc [1]WC
		for cq.Poll(wc[:]) > 0 {
			handled++
		}
	})
	cq.push(WC{}, true)
	var other sync.WaitGroup
	other.Go(func() { ep.q.Notify() })
	<-begun
	cq.push(WC{}, true)
	if ep.q.Notify() || !ep.q.Handling() {
		t.Error("nobody handles")
	}
	close(goOn)
	for ep.q.Handling() {
	}
	if handled != 2 {
		t.Errorf("%d of 2 handled", handled)
	}
	other.Wait()
	qp.Close()
}

// TestDoneAfterHandler: Done is closed once the handler has had all flushed completions, even if
// another goroutine runs the handler and has not polled yet.
func TestDoneAfterHandler(t *testing.T) {
	_, cq, qp, ep := stillQP(t)
	if err := qp.PostRecv(RecvWR{}); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	var handled, polls atomic.Int32
	cq.SetHandler(func() {
		var wc [1]WC
		for cq.Poll(wc[:]) > 0 {
			handled.Add(1)
		}
		if polls.Add(1) == 1 { // the flush comes after the first round's Poll
			close(begun)
			<-goOn
		}
	})
	if !ep.q.Established(Connected{IRD: 1, ORD: 1}) {
		t.Fatalf("not established: %v", qp.State())
	}
	cq.push(WC{}, true)
	var other sync.WaitGroup
	other.Go(func() { ep.q.Notify() })
	<-begun
	other.Go(func() { ep.Abort(ErrClosed) })
	select {
	case <-qp.Done():
		t.Error("done while a handler runs")
	case <-time.After(10 * time.Millisecond): // by now the QP's end usually waits
	}
	close(goOn)
	<-qp.Done()
	if n := handled.Load(); n != 2 {
		t.Errorf("done when %d of 2 were handled", n)
	}
	other.Wait()
}
