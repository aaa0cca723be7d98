// Calls that are alone: their caller receives the reply itself, and who tells of the Sends that are
// deferred for that.

package rpcrdma

// aloneMin is from how many calls in a row on, with no other one beside them, their caller runs the
// receive side itself.
const aloneMin = 8

// countAlone counts a call that has been entered. The caller holds mu.
func (rq *requester) countAlone() {
	switch n := rq.alone.Load(); {
	case rq.pending.n > 1 && n > 0:
		rq.alone.Store(0)
	case rq.pending.n == 1 && n < aloneMin:
		rq.alone.Store(n + 1)
	}
}

// isAlone reports whether the call that was entered last is likely to be the only one until its
// reply.
func (rq *requester) isAlone() bool { return rq.alone.Load() >= aloneMin }

// anyPending reports whether calls wait for their replies.
func (rq *requester) anyPending() bool {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	return rq.pending.n > 0
}

// attend sees to it that somebody takes in what comes while a call that has been posted waits: its
// caller where it is alone, for as long as the QP can be driven, else the RNIC.
func (rq *requester) attend(k *Call) {
	if rq.isAlone() {
		rq.c.qp.Drive(k.here)
	} else {
		rq.c.qp.Rouse()
	}
}

// replied reports whether nothing more is to come for a call that was posted: with its reply here,
// it may still wait for the completion of its Send, which the peer has no part in.
func (k *Call) replied() bool {
	k.rq.mu.Lock()
	defer k.rq.mu.Unlock()
	return k.state != callPosted && k.state != callSent
}

// promptSends has completions of Sends told that somebody waits for. Those of calls are deferred:
// the reply comes later, and both are seen at once. But where the reply was here before the poster
// of its call, or of another one, had noted that it has left, or where Do has given up, nobody
// would be told.
//
// It is called by who may have completed Sends, after that; who begins to wait for one says so
// before it calls Prompt itself. So one of the two sees the other.
func (c *Conn) promptSends() {
	if c.requester.unsent.Load() > 0 {
		c.qp.Prompt()
	}
}
