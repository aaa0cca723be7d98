// The requester: the calling side of a connection, and the path of a call through it.

package rpcrdma

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A requester makes a connection's calls in one direction. A call goes through Do from top to
// bottom: credit, memory exposure, post, wait, fence. The receive loop reports events from the peer
// and the RNIC by takeReply, takeError and sendCompleted. These change the Call's state
// (requester_call.go) and wake Do.
//
// Lock: mu guards the state of every Call, and all tables. It is held for a few instructions at a
// time: nothing is posted, registered, invalidated or copied under it, and no other lock of the
// package is taken.
type requester struct {
	// Set once.
	c *Conn

	starting sync.Once
	startErr error // written by starting

	mu        sync.Mutex
	ended     error        // not nil: the requester has ended; no call becomes queued, credited or posted
	credits   credits      // inflight = the number of calls holding a credit
	pending   pendingCalls // calls in a pending state, by XID; no two have the same
	calls     []*Call      // all calls ever made; the index is in a call's work request id
	free      *Call        // idle calls for reuse, linked by Call.next; nil once the requester has ended
	abandoned int          // calls abandoned or orphaned; at most credits.inflight
	answered  int64        // calls ended by a reply, an error or the connection; only grows
	unsent    atomic.Int32 // calls in a state that awaitsSend; changed with mu, read without it
	row       lead.Row     // calls that found no other call pending; changed with mu, read without
}

func (rq *requester) init(c *Conn) {
	rq.c = c
	rq.credits = newCredits(c.cfg.Credits)
	rq.pending.init(c.cfg.Credits)
}

// start posts the receives for replies before the first call: one for each credit of Config (RFC
// 8166 §3.3.1 [R8166-028]). Concurrent calls wait until all are posted, because one reply can grant
// credits for all of them.
func (rq *requester) start() error {
	rq.starting.Do(func() { rq.startErr = rq.c.receives.add(rq.c.qp, rq.c.cfg.Credits) })
	return rq.startErr
}

// Do sends the call when a credit is free and waits for the reply. When it returns, with or without
// an error, no byte is placed in Sink and none is read from Msg any more. When ctx ends first,
// other memory replaces the call's at once, so that a peer using it later does no harm and meets no
// fault. The same holds when k.Expired delivers first; the error is ErrTimeout then.
//
// Connection errors are a *ClosedError. ErrChunk and ErrVersion are the peer's errors for the call;
// ErrBadReply reports a fault in its reply. After ErrXID, ErrMessage or ErrTooLarge the call was
// not sent.
func (c *Conn) Do(ctx context.Context, k *Call) error {
	rq := &c.requester
	if len(k.Msg.Stream) < rpcMinLen {
		return ErrMessage
	}
	if err := rq.start(); err != nil {
		return c.postError(err)
	}
	if err := rq.takeCredit(ctx, k); err != nil {
		return err
	}
	if err := rq.send(k); err != nil {
		rq.releaseUnsent(k)
		return err
	}
	rq.ensureReceiver(k)
	if err := k.wait(ctx); err != nil && rq.giveUp(k) {
		return err
	}
	return k.finish()
}

// wait waits for the token of a state change, the end of ctx, or Expired.
func (k *Call) wait(ctx context.Context) error {
	for {
		select {
		case <-k.wake:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-k.Expired:
			if k.TooEarly == nil || !k.TooEarly() {
				return ErrTimeout
			}
		}
	}
}

// takeCredit waits for the call's turn and a credit.
func (rq *requester) takeCredit(ctx context.Context, k *Call) error {
	if err := rq.c.Err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if rq.ended != nil {
		return rq.ended
	}
	if rq.credits.acquire(k) {
		k.become(callCredited)
		return nil
	}
	k.become(callQueued)

	rq.mu.Unlock()
	since := time.Now()
	err := k.wait(ctx)
	k.Waited = time.Since(since)
	rq.mu.Lock()
	switch {
	case k.state == callQueued: // ctx ended, or Expired delivered
		rq.credits.forget(k)
		k.become(callIdle)
		return err
	case k.state == callIdle: // end made the call idle
		k.unsignal()
		return rq.ended
	case err != nil: // the credit came at that very moment
		k.unsignal()
		rq.giveCredit(k)
	}
	return err
}

// giveCredit makes a call idle and passes its credit to the next waiting call. The caller holds mu.
func (rq *requester) giveCredit(k *Call) {
	k.become(callIdle)
	rq.credits.release()
	rq.wakeWaiters()
}

// wakeWaiters assigns the free credits to waiting calls. The caller holds mu.
func (rq *requester) wakeWaiters() {
	for k := rq.credits.next(); k != nil; k = rq.credits.next() {
		k.become(callCredited)
		k.signal()
	}
}

// send exposes the call's memory, adds the call to the pending ones and posts it.
func (rq *requester) send(k *Call) error {
	k.xid = binary.BigEndian.Uint32(k.Msg.Stream)
	if err := k.prepare(rq.c.thresholds()); err != nil {
		return err
	}
	if err := rq.enter(k); err != nil {
		return err
	}
	// Deferred: the reply comes after this completion; see promptSends.
	k.wr[0] = rnic.SendWR{ID: k.id, Op: rnic.OpSend, SGL: k.sgl, Hint: rnic.HintDeferred}
	if err := rq.c.post(sendWork{call: k}); err != nil {
		rq.withdraw(k)
		return rq.c.postError(err)
	}
	return nil
}

// enter makes the call pending, before it is posted: from then on its reply and the completion of
// its send can come at any time and in any order.
func (rq *requester) enter(k *Call) error {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if rq.ended != nil {
		return rq.ended
	}
	k.err = nil
	if !rq.pending.put(k) {
		return ErrXID
	}
	k.become(callPosted)
	rq.row.Count(rq.pending.n > 1)
	return nil
}

// withdraw undoes enter for a call not accepted by the RNIC (RFC 8166 §4.5.4 [R8166-167]).
func (rq *requester) withdraw(k *Call) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	switch k.state {
	case callPosted:
		rq.pending.take(k)
		k.become(callCredited)
	case callEarly: // the peer guessed the XID: its reply is released with the Call
		k.become(callCredited)
	case callAnswered: // the connection ended first
		k.unsignal()
	}
}

// releaseUnsent ends the use of a call that has not left: it frees the call's memory and credit.
func (rq *requester) releaseUnsent(k *Call) {
	k.memory.release()
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if k.state == callCredited {
		rq.giveCredit(k)
	}
}

// finish fences the memory of an answered call, then makes its Reply.
func (k *Call) finish() error {
	// The fence comes before the caller sees any of the reply (RFC 8166 §4.4.1 [R8166-141], RFC
	// 8166 §8.1.3 [R8166-202]).
	k.memory.invalidate()
	if k.err != nil {
		return k.err
	}
	if k.long {
		k.Reply = chunks.Message{Stream: k.memory.replyBuf.B[:k.placed]}
		if binary.BigEndian.Uint32(k.Reply.Stream) != k.xid {
			return ErrBadReply
		}
		return nil
	}
	k.Reply = chunks.Message{Stream: k.recv.buf[k.streamOff:k.recv.n]}
	if k.placed > 0 {
		k.items[0] = xdr.Item{Off: xdr.AnyOffset, Data: k.Sink[:k.placed]}
		k.Reply.Items = k.items[:]
	}
	return nil
}

// end ends all calls. No work is left with the RNIC; lost holds the calls still on the waitlist.
func (rq *requester) end(cause error, lost []*Call) {
	rq.mu.Lock()
	rq.ended = cause
	for k := rq.credits.drain(); k != nil; {
		next := k.next
		k.next = nil
		k.become(callIdle)
		k.signal()
		k = next
	}
	for _, k := range lost {
		rq.fail(k, cause)
	}
	var late []*Call
	for k := rq.pending.any(); k != nil; k = rq.pending.any() {
		if !k.state.givenUp() {
			rq.fail(k, cause)
		} else if rq.answer(k) {
			late = append(late, k)
		}
	}
	free := rq.free
	rq.free = nil
	rq.mu.Unlock()
	for _, k := range late {
		rq.releaseLate(k)
	}
	for ; free != nil; free = free.next {
		free.memory.deregister()
	}
}

// fail ends a call waiting for a send or a reply that can no longer come. The caller holds mu.
func (rq *requester) fail(k *Call, err error) {
	switch k.state {
	case callPosted, callLeaving, callSent:
		rq.pending.take(k)
		rq.answered++
	case callEarly: // its reply is here, but does not count for an unsent call
	default:
		return
	}
	k.err = err
	k.become(callAnswered)
	k.signal()
}

// unsendable ends a call from the waitlist that could not be posted. It does nothing if the
// connection ended first. The caller holds sendWaitlist.mu, under which Do withdraws a call: so k
// has not been withdrawn and reused.
func (rq *requester) unsendable(k *Call, err error) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	rq.fail(k, err)
}

// windowAbandoned reports whether abandoned calls hold all credits, so that no other call can
// start, and how many calls have been answered so far. A reply with a faulty header is dropped (RFC
// 8166 §4.5 [R8166-149]). The abandoned call keeps its credit, because the peer may still be
// working on the call. A window full of such calls is lost: only a new connection gives the credits
// back.
func (rq *requester) windowAbandoned() (bool, int64) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	return rq.abandoned > 0 && rq.abandoned >= rq.credits.window(), rq.answered
}

// granted returns the peer's newest grant; 1 before the first.
func (rq *requester) granted() int {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	return rq.credits.granted
}
