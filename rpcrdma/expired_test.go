// Calls ended by a timer.

package rpcrdma

import (
	"errors"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A timer ends a call as a context does: a call waiting for a credit leaves the queue; a sent one
// keeps its credit until the late reply (RFC 8166 §4.4.1 [R8166-143]).
func TestRequesterExpired(t *testing.T) { overProviders(t, testRequesterExpired) }

func testRequesterExpired(t *bed) {
	p, c := rawResponder(t, Config{Credits: 1}, r1)
	timed := func(xid uint32) (*Call, chan time.Time) {
		k, ch := nullCall(c, xid), make(chan time.Time, 1)
		k.Expired = ch
		return k, ch
	}
	k1, ch1 := timed(7)
	first := start(t.Context(), c, k1)
	p.wantCall(7)
	k2, ch2 := timed(8)
	second := start(t.Context(), c, k2)
	must.Become(t, "the calls in line", func() bool { return c.queued() == 1 })
	ch2 <- time.Time{}
	if err := <-second.done; !errors.Is(err, ErrTimeout) {
		t.Fatalf("Do: %v, want %v", err, ErrTimeout)
	}
	k2.Release()
	ch1 <- time.Time{}
	if err := <-first.done; !errors.Is(err, ErrTimeout) {
		t.Fatalf("Do: %v, want %v", err, ErrTimeout)
	}
	k1.Release()
	third := start(t.Context(), c, nullCall(c, 9))
	must.Become(t, "the calls in line", func() bool { return c.queued() == 1 }) // the credit is not free
	p.send(nullReply(7, 1))
	p.wantCall(9)
	p.send(nullReply(9, 1))
	if err := <-third.done; err != nil {
		t.Fatalf("Do: %v", err)
	}
	if k1.Expired != nil || k2.Expired != nil {
		t.Error("a call came home with its timer")
	}
	third.k.Release()
	checkReleased(t, c)
}
