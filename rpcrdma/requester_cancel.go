// The requester, giving up: calls whose caller goes away before the reply is there.

package rpcrdma

import "time"

// giveUp ends the wait for a reply. It returns false when the reply came in after
// all. A call that is still in line for the send queue is withdrawn. One that the RNIC
// has is waited for until it has left, for its bytes are the caller's; a connection
// that is stuck is closed for that. A call that has left cannot be recalled: the peer
// gets memory of ours in place of the caller's, and the call keeps its credit and XID.
func (rq *requester) giveUp(k *Call) bool {
	if rq.c.withdraw(k) {
		rq.withdraw(k)
		rq.takeBack(k)
		return true
	}
	if !rq.awaitSent(k) {
		return false
	}
	k.memory.standIn(k) // before the caller touches it (RFC 8166 §4.4.1 [R8166-143], RFC 8166 §8.1.4 [R8166-206])

	rq.mu.Lock()
	defer rq.mu.Unlock()
	if k.state == callAnswered { // just now: the reply may tell of data that went to our memory
		k.unsignal()
		return true
	}
	k.become(callAbandoned)
	rq.abandoned++
	return true
}

// awaitSent waits until the call's send has completed, and reports whether the reply
// is still missing. A token that the reply has left is taken.
func (rq *requester) awaitSent(k *Call) bool {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if k.state == callPosted {
		k.become(callLeaving)
	}
	if k.state == callLeaving || k.state == callEarly {
		rq.mu.Unlock()
		rq.c.qp.Prompt() // it may have left already
		rq.c.awaitProgress(k)
		rq.mu.Lock()
	}
	k.unsignal()
	return k.state == callSent
}

// awaitProgress waits for the call's token as long as the peer takes anything at all.
// A connection that stands still for sendGrace is ended, which gives the token too.
func (c *Conn) awaitProgress(k *Call) {
	grace := time.NewTicker(c.cfg.sendGrace / stallTicks)
	defer grace.Stop()
	c.awaitMoves(k, grace.C)
}

// awaitMoves is awaitProgress with a look at each tick. It counts the looks at which nothing had
// moved, and not the time: a process that was stopped, or a machine with no time for it, has moved
// nothing either, and finds one tick when it goes on.
func (c *Conn) awaitMoves(k *Call, ticks <-chan time.Time) {
	for still := (stall{bytes: c.qp.Moved()}); ; {
		select {
		case <-k.wake:
			return
		case <-ticks:
		}
		if still.tick(true, 0, c.qp.Moved()) { // bytes, not completions: one large item can take longer on a slow link
			c.fail(errSendStuck)
			<-k.wake
			return
		}
	}
}

// releaseLate brings a call back that Do had given up on, now that its reply is here. The
// caller may call Release at any moment of it: the state says, at the end, whether it did, and
// so which of the two puts the Call on the free list.
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
