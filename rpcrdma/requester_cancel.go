// The requester, giving up: calls abandoned by their caller before the reply arrives.

package rpcrdma

import "time"

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

// awaitProgress waits for the call's token while the peer takes any bytes at all. It ends a
// connection without progress for sendGrace, which gives the token too.
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
