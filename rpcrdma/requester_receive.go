// The requester, inbound: completed sends, and replies and errors matched with their calls.

package rpcrdma

import "encoding/binary"

// sendCompleted records that the RNIC has released the send buffers of a call, either after sending
// or at the end of the connection.
func (rq *requester) sendCompleted(index int) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	switch k := rq.calls[index]; k.state {
	case callPosted:
		k.become(callSent) // Do waits for the reply: no reason to wake it
	case callLeaving:
		k.become(callSent)
		k.signal()
	case callEarly:
		k.become(callAnswered)
		k.signal()
	}
}

func (rq *requester) isPending(xid uint32) bool {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	return rq.pending.find(xid) != nil
}

// takeReply gives a reply to its call and reports whether it did. It drops a reply that answers no
// pending call, or whose chunks do not fit the call's offer. Only a valid reply moves the window
// (RFC 8166 §3.3.3 [R8166-040]).
func (rq *requester) takeReply(h *Header, r *recvCtx) bool {
	rq.mu.Lock()
	k := rq.pending.find(h.XID)
	if k == nil || !k.accept(h, r) {
		rq.mu.Unlock()
		return false
	}
	k.recv = r
	late := rq.answer(k)
	// Where calls go both ways RDMA_NOMSG does not say which direction's credits it carries (RFC
	// 8167 §4.1 [R8167-006]).
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

// takeError ends the call refused by the peer: the error is permanent (RFC 8166 §4.5 [R8166-154]).
// An error without a pending call is dropped, and a responder drops all errors (RFC 8166 §4.2.4
// [R8166-114]).
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

// answer ends the wait of a pending call. The caller has stored the reply or error, and holds mu.
// If late, Do has given the call up, and the caller must run releaseLate.
func (rq *requester) answer(k *Call) (late bool) {
	rq.pending.take(k) // a second reply under this XID finds no call and is dropped
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

// accept checks a reply against the call's offer and records its position. Step by step:
//
//  1. The Read list is empty, and there are as many Write chunks as in the call, and a Reply
//     chunk if the call had one. Anything else answers another call, or none.
//  2. Each chunk equals the call's own except for its lengths, which are no larger.
//  3. RDMA_NOMSG has its reply in the Reply chunk, so there is one.
//  4. RDMA_MSG with bytes in the Reply chunk, or RDMA_NOMSG with too few for a reply, answers this
//     call but is wrong: memory has been written. The call ends with it.
//  5. The message of RDMA_MSG has the XID of the header. For RDMA_NOMSG finish checks this, once
//     the peer can no longer write the message.
//
// False: the header does not answer this call, and is dropped (RFC 8166 §4.5 [R8166-149]). A reply
// to this call with wrongly used chunks ends the call. The caller holds requester.mu.
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
	// Set before step 5, which can still drop the reply; the next reply then overwrites the field.
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
