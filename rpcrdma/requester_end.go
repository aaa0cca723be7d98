// The requester, endings: abandoned calls with the memory in their place, and the connection's end.

package rpcrdma

import (
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// giveUp ends the wait for a reply. It returns false when the reply arrived after all. It withdraws
// a call still on the waitlist. A call with the RNIC must leave first, because its bytes
// are the caller's; a connection too stuck for that is closed. A call that has left cannot be
// recalled: the peer gets other memory in place of the caller's, and the call keeps its credit and
// XID.
func (rq *requester) giveUp(k *Call) bool {
	if rq.c.withdraw(k) {
		rq.withdraw(k)
		rq.releaseUnsent(k)
		return true
	}
	if !rq.awaitSent(k) {
		return false
	}
	// The peer loses the memory before the caller touches it (RFC 8166 §4.4.1 [R8166-143], RFC 8166
	// §8.1.4 [R8166-206]).
	k.memory.standIn(k)

	rq.mu.Lock()
	defer rq.mu.Unlock()
	if k.state == callAnswered { // the reply came just now: it may report data placed in our stand-in
		k.unsignal()
		return true
	}
	k.become(callAbandoned)
	rq.abandoned++
	return true
}

// awaitSent waits until the call's send has completed, and reports whether the reply is still
// missing. It takes a token left by the reply.
func (rq *requester) awaitSent(k *Call) bool {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if k.state == callPosted {
		k.become(callLeaving)
	}
	if k.state == callLeaving || k.state == callEarly {
		rq.mu.Unlock()
		rq.c.qp.FlushDeferred() // the send may have left already
		rq.c.awaitProgress(k)
		rq.mu.Lock()
	}
	k.unsignal()
	return k.state == callSent
}

// awaitProgress waits for the call's token. If the peer takes less than minProgress bytes in
// sendGrace, awaitProgress ends the connection, which gives the token too.
func (c *Conn) awaitProgress(k *Call) {
	grace := time.NewTicker(c.cfg.sendGrace / stallTicks)
	defer grace.Stop()
	c.awaitMoves(k, grace.C)
}

// awaitMoves is awaitProgress with one check at each tick. It counts the checks without progress,
// not the time: a stopped process, or a machine too busy to run it, has moved nothing either, and
// finds a single tick when it continues.
func (c *Conn) awaitMoves(k *Call, ticks <-chan time.Time) {
	for still := (stall{bytes: c.qp.Moved()}); ; {
		select {
		case <-k.wake:
			return
		case <-ticks:
		}
		// Bytes count here, not completions: one large item can take longer on a slow link.
		if still.tick(true, 0, c.qp.Moved()) {
			c.fail(errSendStuck)
			<-k.wake
			return
		}
	}
}

// releaseLate frees an abandoned call when its reply has arrived. The caller may call Release at
// any moment meanwhile. The state at the end shows whether Release was called, and so whether
// Release or releaseLate puts the Call on the free list.
func (rq *requester) releaseLate(k *Call) {
	k.memory.release()
	rq.repost(k)
	rq.mu.Lock()
	orphan := k.state == callOrphaned
	rq.abandoned--
	rq.giveCredit(k)
	rq.mu.Unlock()
	if orphan {
		rq.recycle(k)
	}
}

// standIn ends the peer's access to the caller's memory, but keeps the STags valid. The responder
// cannot learn that the call was given up: it writes its result to our buffers, and reads copies of
// the caller's items from them. A stale STag would end the connection, and all other calls with it.
func (m *exposure) standIn(k *Call) {
	for i := range min(len(m.args), len(k.Msg.Items)) {
		m.divert(m.args[i], k.Msg.Items[i].Data, true)
	}
	m.divert(m.sink, k.Sink, false)
}

// divert gives the peer a buffer in place of b, with the content of b if the peer can read it.
func (m *exposure) divert(mr *rnic.MR, b []byte, keep bool) {
	if mr == nil || !mr.Valid() || len(b) > maxStandIn {
		invalidate(mr)
		return
	}
	f := mem.Get(len(b))
	if keep {
		copy(f.B, b)
	}
	m.standIns = append(m.standIns, f)
	mr.Divert(f.B[:len(b)])
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
