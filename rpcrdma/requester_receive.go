// The requester, inbound: replies and errors matched with the calls that they answer, and completed
// sends.

package rpcrdma

import "encoding/binary"

// sendCompleted notes that the RNIC has released the send buffers of a call, whether
// they have left or the connection ended before.
func (rq *requester) sendCompleted(index int) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	switch k := rq.calls[index]; k.state {
	case callPosted:
		k.become(callSent) // Do waits for the reply: nothing to wake it for
	case callLeaving:
		k.become(callSent)
		k.signal()
	case callEarly:
		k.become(callAnswered)
		k.signal()
	}
}

// isPending reports whether a call of this XID waits for its reply.
func (rq *requester) isPending(xid uint32) bool {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	return rq.pending.find(xid) != nil
}

// takeReply gives a reply to the call that it answers, and reports whether it did.
// What matches no call, or not what the call offered, is dropped; only a valid
// reply moves the window (RFC 8166 §3.3.3 [R8166-040]).
func (rq *requester) takeReply(h *Header, r *recvCtx) bool {
	rq.mu.Lock()
	k := rq.pending.find(h.XID)
	if k == nil || !k.accept(h, r) {
		rq.mu.Unlock()
		return false
	}
	k.recv = r
	late := rq.answer(k)
	// Where calls go both ways RDMA_NOMSG does not say whose credits it carries (RFC 8167 §4.1
	// [R8167-006]).
	if h.Proc == ProcMsg || rq.c.responder.handler == nil {
		rq.credits.grant(h.Credits)
		rq.wakeWaiters()
	}
	rq.mu.Unlock()
	if late {
		rq.releaseLate(k)
	}
	return true
}

// takeError ends the call that the peer could not take: it is permanent (RFC 8166 §4.5
// [R8166-154]). An error that names no pending call is dropped, which is also what a responder does
// with any of them (RFC 8166 §4.2.4 [R8166-114]).
func (rq *requester) takeError(h *Header) {
	rq.mu.Lock()
	k := rq.pending.find(h.XID)
	if k == nil {
		rq.mu.Unlock()
		return
	}
	k.err = ErrChunk
	if h.Err == CodeVers {
		k.err = ErrVersion
	}
	late := rq.answer(k)
	if rq.c.responder.handler == nil {
		rq.credits.grant(h.Credits)
		rq.wakeWaiters()
	}
	rq.mu.Unlock()
	if late {
		rq.releaseLate(k)
	}
}

// answer ends the wait of a pending call. The caller has filled in what came, and holds
// mu. It reports that Do has given the call up: then releaseLate is due.
func (rq *requester) answer(k *Call) (late bool) {
	rq.pending.take(k) // a second reply under this XID finds nothing, and is dropped
	rq.answered++
	switch k.state {
	case callPosted, callLeaving:
		k.become(callEarly) // the send's completion wakes Do
	case callSent:
		k.become(callAnswered)
		k.signal()
	}
	return k.state.givenUp()
}

// accept checks a reply against what the call offered and notes where it lies. Step by step:
//
//  1. The Read list is empty, and there are as many Write chunks as in the call, and a Reply
//     chunk if the call had one. Anything else answers another call, or none.
//  2. Each chunk is the call's own but for its lengths, which are no larger.
//  3. RDMA_NOMSG has its reply in the Reply chunk, so there is one.
//  4. RDMA_MSG with bytes in the Reply chunk, or RDMA_NOMSG with too few for a reply, is the
//     answer to this call, and wrong: memory has been written. The call ends with it.
//  5. The message of RDMA_MSG has the XID of the header. That of RDMA_NOMSG is looked at by
//     finish, once the peer can no longer write it.
//
// False: the header is not that of an answer to this call, and is dropped
// (RFC 8166 §4.5 [R8166-149]). A reply that is one but has used the chunks wrongly ends the call.
// The caller holds requester.mu.
func (k *Call) accept(h *Header, r *recvCtx) bool {
	if len(h.Read) > 0 || len(h.Write) != len(k.hdr.Write) || h.HasReply != k.hdr.HasReply {
		return false
	}
	var items uint64
	for i := range h.Write {
		n, err := h.Write[i].Returned(k.hdr.Write[i])
		if err != nil {
			return false
		}
		items += n
	}
	whole, err := h.Reply.Returned(k.hdr.Reply)
	if err != nil || h.Proc == ProcNoMsg && !h.HasReply {
		return false
	}
	// Noted before step 5, which can still drop the reply: the next one overwrites it.
	k.long = h.Proc == ProcNoMsg
	k.streamOff, k.placed = h.Len, int(items)
	switch {
	case k.long && whole < rpcMinLen, !k.long && whole > 0:
		k.err = ErrBadReply
	case k.long:
		k.placed = int(whole)
	case binary.BigEndian.Uint32(r.buf[h.Len:]) != k.xid: // RFC 8166 §4.2.1 [R8166-105]
		return false
	}
	return true
}
