// The requester: what makes calls on a connection, and how a call goes through it.

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

// A requester makes the calls of one connection and direction. A call goes through
// Do from top to bottom: credit, exposure of memory, post, wait, fence. What comes from
// the peer, and from the RNIC, reaches it by takeReply, takeError and sendCompleted,
// on the receive loop; they change the Call's state (requester_call.go) and wake Do.
//
// Lock: mu guards the state of every Call, and all tables. It is held for some
// instructions at a time: nothing is posted, registered, invalidated or copied with it
// held, and no other lock of the package is taken.
type requester struct {
	// Set once.
	c *Conn

	starting sync.Once
	startErr error // written by starting

	mu        sync.Mutex
	ended     error        // not nil: the connection has ended; no call becomes queued, credited or posted
	credits   credits      // inflight = the number of calls that hold a credit
	pending   pendingCalls // the calls in a state that is pending, by XID; no two have the same
	calls     []*Call      // all that have been made; a work request names its Call by the index
	free      *Call        // idle ones to use again, linked by Call.next; none once ended
	abandoned int          // calls abandoned or orphaned; at most credits.inflight
	answered  int64        // calls that were answered, by whatever; it only grows
	unsent    atomic.Int32 // calls in a state that awaitsSend; changed with mu, read without it
	row       lead.Row     // of calls that found no other one pending; changed with mu, read without it
}

func (rq *requester) init(c *Conn) {
	rq.c = c
	rq.credits = newCredits(c.cfg.Credits)
	rq.pending.init(c.cfg.Credits)
}

// start posts the receives for replies, one for each credit that we may use, before
// the first call (RFC 8166 §3.3.1 [R8166-028]). Calls that are made at the same time wait until
// they are posted: once one of them is answered, as many may leave as the peer
// grants.
func (rq *requester) start() error {
	rq.starting.Do(func() { rq.startErr = rq.c.receives.add(rq.c.qp, rq.c.cfg.Credits) })
	return rq.startErr
}

// Do sends the call when a credit is free and waits for the reply. When it
// returns, with or without an error, no byte is placed in Sink and none of Msg
// is read any more. When ctx ends first other memory takes the place of the call's
// at once, so that a peer that uses it later does no harm and comes to none. The
// same holds when k.Expired delivers first; the error is ErrTimeout then. Errors of
// the connection are a *ClosedError; ErrChunk and ErrVersion are what the peer said of
// the call, ErrBadReply what is wrong with its reply, ErrXID, ErrMessage and
// ErrTooLarge what keeps the call from being sent.
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
		rq.takeBack(k)
		return err
	}
	rq.attend(k)
	if err := k.wait(ctx); err != nil && rq.giveUp(k) {
		return err
	}
	return k.finish()
}

// wait waits for the token that a change of state gives, or until the caller's
// patience ends.
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
	case k.state == callQueued: // given up
		rq.credits.forget(k)
		k.become(callIdle)
		return err
	case k.state == callIdle: // by end
		k.unsignal()
		return rq.ended
	case err != nil: // it was its turn at that very moment
		k.unsignal()
		rq.giveCredit(k)
	}
	return err
}

// giveCredit brings a call back to idle, and lets go who waits for its credit. The
// caller holds mu.
func (rq *requester) giveCredit(k *Call) {
	k.become(callIdle)
	rq.credits.release()
	rq.wakeWaiters()
}

// wakeWaiters gives out the credits that are free. The caller holds mu.
func (rq *requester) wakeWaiters() {
	for k := rq.credits.next(); k != nil; k = rq.credits.next() {
		k.become(callCredited)
		k.signal()
	}
}

// send exposes what the call offers, enters it among the pending and posts it.
func (rq *requester) send(k *Call) error {
	k.xid = binary.BigEndian.Uint32(k.Msg.Stream)
	if err := k.prepare(rq.c.thresholds()); err != nil {
		return err
	}
	if err := rq.enter(k); err != nil {
		return err
	}
	k.wr[0] = rnic.SendWR{ID: k.id, Op: rnic.OpSend, SGL: k.sgl, Deferred: true} // the reply comes after it; see promptSends
	if err := rq.c.post(sendWork{call: k}); err != nil {
		rq.withdraw(k)
		return rq.c.postError(err)
	}
	return nil
}

// enter makes the call pending, before it is posted: from then on its reply, and the
// completion of its send, can come at any time and in any order.
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

// withdraw undoes enter for a call that the RNIC has not taken (RFC 8166 §4.5.4 [R8166-167]).
func (rq *requester) withdraw(k *Call) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	switch k.state {
	case callPosted:
		rq.pending.take(k)
		k.become(callCredited)
	case callEarly: // the peer has guessed the XID: its reply is released with the Call
		k.become(callCredited)
	case callAnswered: // the connection ended first
		k.unsignal()
	}
}

// takeBack ends the use of a call that has not left: its memory and its credit are free.
func (rq *requester) takeBack(k *Call) {
	k.memory.release()
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if k.state == callCredited {
		rq.giveCredit(k)
	}
}

// finish fences the memory of an answered call, then makes its Reply.
func (k *Call) finish() error {
	k.memory.invalidate() // before the caller sees any of it (RFC 8166 §4.4.1 [R8166-141], RFC 8166 §8.1.3 [R8166-202])
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

// end ends all calls. No work is left with the RNIC; lost are the calls that were
// still in the send line.
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

// fail ends a call that waits for its send or its reply, neither of which will
// come any more. The caller holds mu.
func (rq *requester) fail(k *Call, err error) {
	switch k.state {
	case callPosted, callLeaving, callSent:
		rq.pending.take(k)
		rq.answered++
	case callEarly: // its reply is here, and says nothing of a call that has not been sent
	default:
		return
	}
	k.err = err
	k.become(callAnswered)
	k.signal()
}

// unsendable ends a call that was in the send line and could not be posted. It
// does nothing when the end of the connection was first. The caller holds
// sendLine.mu: until then Do cannot have withdrawn the call, so it is still the same one.
func (rq *requester) unsendable(k *Call, err error) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	rq.fail(k, err)
}

// windowAbandoned reports whether all credits are held by calls that Do has given up
// on, so that no other call can start, and how many calls have been answered so far.
// A reply with a fault in its header is dropped (RFC 8166 §4.5 [R8166-149]), and its call keeps
// the credit until then, for the peer may still be at work on it. A window that
// stays so is lost: only a new connection gives the credits back.
func (rq *requester) windowAbandoned() (bool, int64) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	return rq.abandoned > 0 && rq.abandoned >= rq.credits.window(), rq.answered
}

// granted is the peer's newest grant; 1 before the first.
func (rq *requester) granted() int {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	return rq.credits.granted
}
