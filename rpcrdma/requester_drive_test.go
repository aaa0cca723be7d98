// Calls that receive their reply on the caller's goroutine, and deferred Send completions, in
// simulated time.

package rpcrdma

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
)

// A loneCaller is a connection to a peer that answers on request.
type loneCaller struct {
	*bareResponder
	c         *Conn
	xid       uint32
	byCallers int                    // number of handler runs by a goroutine in Do
	onWrite   atomic.Pointer[func()] // runs once, after bytes have left, before their writer returns
}

// inBubble runs f with a loneCaller, after one call has opened the window.
func inBubble(t *testing.T, f func(t *testing.T, q *loneCaller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		over, nc := rnictest.ReadyPipe()
		q := &loneCaller{}
		over.AfterWrite = func() {
			if hook := q.onWrite.Swap(nil); hook != nil {
				(*hook)()
			}
		}
		q.c, q.bareResponder = connectOver(t, Config{Credits: 8}, over, nc)
		q.c.cq.SetHandler(func() {
			var stack [16 << 10]byte
			if bytes.Contains(stack[:runtime.Stack(stack[:], false)], []byte("(*Conn).Do(")) {
				q.byCallers++
			}
			q.c.onCompletions()
		})
		q.roundTrip()
		f(t, q)
	})
}

// begin starts a call, and returns when all goroutines are blocked.
func (q *loneCaller) begin(ctx context.Context) *pendingDo {
	synctest.Wait() // the receiver of the last reply has finished
	q.xid++
	d := start(ctx, q.c, nullCall(q.c, q.xid))
	synctest.Wait()
	return d
}

// end makes the peer answer a call, which must return at once.
func (q *loneCaller) end(d *pendingDo, xid uint32) {
	q.t.Helper()
	since := time.Now()
	q.reply(xid, 8)
	if err := <-d.done; err != nil || time.Since(since) > 0 {
		q.t.Fatalf("call %d: %v after %v", xid, err, time.Since(since))
	}
	d.k.Release()
}

func (q *loneCaller) roundTrip() {
	q.t.Helper()
	d := q.begin(q.t.Context())
	q.wantCall(q.xid)
	q.end(d, q.xid)
}

// alone makes calls until the next caller polls the QP itself.
func (q *loneCaller) alone() {
	q.t.Helper()
	for range lead.AloneMin - 1 { // the first has opened the window
		q.roundTrip()
	}
	if q.byCallers > 0 {
		q.t.Fatal("driven before it is likely that the call is alone")
	}
}

// TestLoneCall: a lone call's caller runs the handler that delivers its reply.
func TestLoneCall(t *testing.T) {
	inBubble(t, func(t *testing.T, q *loneCaller) {
		q.alone()
		for range 10 {
			q.roundTrip()
		}
		if q.byCallers != 10 {
			t.Errorf("%d of 10 replies were received by their callers", q.byCallers)
		}
	})
}

// TestCallBesideLoneOne: in any order of replies, each of two calls gets its own at once.
func TestCallBesideLoneOne(t *testing.T) {
	for _, firstFirst := range []bool{true, false} {
		inBubble(t, func(t *testing.T, q *loneCaller) {
			q.alone()
			for range 3 {
				a, b := q.begin(t.Context()), q.begin(t.Context())
				x, y := q.xid-1, q.xid
				if !firstFirst {
					a, b, x, y = b, a, y, x
				}
				q.wantCall(q.xid - 1)
				q.wantCall(q.xid)
				q.end(a, x)
				q.end(b, y)
			}
		})
	}
}

// TestLoneCallGivesUp: a caller that receives returns soon after its context ends, and the late
// reply gives the credit back.
func TestLoneCallGivesUp(t *testing.T) {
	const soon = 25 * time.Millisecond
	for _, how := range []error{context.Canceled, ErrTimeout} {
		inBubble(t, func(t *testing.T, q *loneCaller) {
			q.alone()
			ctx, cancel := context.WithCancel(t.Context())
			expired := make(chan time.Time, 1)
			q.xid++
			k := nullCall(q.c, q.xid)
			k.Expired = expired
			d := start(ctx, q.c, k)
			synctest.Wait()
			since := time.Now()
			if how == ErrTimeout {
				expired <- since
			} else {
				cancel()
			}
			if err := <-d.done; !errors.Is(err, how) || time.Since(since) > soon {
				t.Errorf("%v after %v", err, time.Since(since))
			}
			k.Release()
			q.wantCall(q.xid)
			q.reply(q.xid, 8)
			synctest.Wait()
			checkReleased(t, q.c)
			q.roundTrip()
			cancel()
		})
	}
}

// TestSlowCallIsNoStall: once the peer has taken a call, a slow answer is not a stall.
func TestSlowCallIsNoStall(t *testing.T) {
	inBubble(t, func(t *testing.T, q *loneCaller) {
		q.alone()
		for range 2 { // once the caller receives the answer, once the RNIC does
			d := q.begin(t.Context())
			time.Sleep(10 * stallTicks * stallTick)
			q.wantCall(q.xid)
			q.end(d, q.xid)
		}
	})
}

// TestEarlyReply: a reply handled before the poster has recorded its Send waits for nothing else.
func TestEarlyReply(t *testing.T) {
	inBubble(t, func(t *testing.T, q *loneCaller) {
		early := func() {
			q.wantCall(q.xid)
			q.reply(q.xid, 8)
			for q.c.requester.unsent.Load() == 0 {
				runtime.Gosched()
			}
		}
		// After one more call callers would receive themselves, and no reply could be early.
		for range lead.AloneMin - 2 {
			since := time.Now()
			q.onWrite.Store(&early)
			if err := <-q.begin(t.Context()).done; err != nil || time.Since(since) > 0 {
				t.Fatalf("%v after %v", err, time.Since(since))
			}
		}
	})
}

// TestEarlyReplyOfOther: an early reply waits for nothing else even if another call's caller sends
// this call, and receives.
func TestEarlyReplyOfOther(t *testing.T) {
	inBubble(t, func(t *testing.T, q *loneCaller) {
		held := make(chan struct{})
		hold := func() { <-held }
		q.onWrite.Store(&hold)
		a := q.begin(t.Context()) // has left, unknown to its caller
		b := q.begin(t.Context())
		early := func() {
			q.wantCall(q.xid - 1)
			q.wantCall(q.xid)
			q.reply(q.xid, 8)
			for q.c.requester.unsent.Load() == 0 {
				runtime.Gosched()
			}
		}
		q.onWrite.Store(&early)
		since := time.Now()
		close(held)
		if err := <-b.done; err != nil || time.Since(since) > 0 {
			t.Fatalf("%v after %v", err, time.Since(since))
		}
		q.end(a, q.xid-1)
	})
}

// TestGiveUpBeforeSent: Do returns from a call given up while another caller sends it, as soon as
// the call has left.
func TestGiveUpBeforeSent(t *testing.T) {
	inBubble(t, func(t *testing.T, q *loneCaller) {
		held := make(chan struct{})
		hold := func() { <-held }
		q.onWrite.Store(&hold)
		a := q.begin(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		b := q.begin(ctx)
		cancel()
		synctest.Wait()
		since := time.Now()
		close(held)
		if err := <-b.done; !errors.Is(err, context.Canceled) || time.Since(since) > 0 {
			t.Fatalf("%v after %v", err, time.Since(since))
		}
		b.k.Release()
		q.wantCall(q.xid)
		q.end(a, q.xid-1)
		q.reply(q.xid, 8)
	})
}
