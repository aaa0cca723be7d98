// Receiving: which messages are replies, which are calls, and which are dropped.

package rpcrdma

import "encoding/binary"

// receive takes in one message. A message is dropped by reposting its buffer at
// once (R8166-032).
func (c *Conn) receive(r *recvCtx) {
	b, h := r.buf[:r.n], &c.in
	err := h.Parse(b)
	taken := false
	switch {
	case err == errHeaderShort: // R8166-146
	case h.Proc == ProcError:
		if err == nil {
			c.takeError(h)
		}
	case err == nil && h.Proc == ProcDone: // R8166-175
	case err == nil && c.isReply(h, b):
		taken = c.takeReply(h, r)
	case c.cfg.Handler == nil, len(b) < minCallLen: // R8166-113, R8166-146
	case err != nil && c.isPending(h.XID): // R8166-149
	default:
		c.takeCall(r)
		taken = true
	}
	if !taken {
		c.repost(r)
	}
}

// isReply tells the direction of a message (R8166-001). RDMA_NOMSG does not say
// it: a reply of that kind has no Read list, which every such call has.
func (c *Conn) isReply(h *Header, b []byte) bool {
	if h.Proc == ProcNoMsg {
		return len(h.Read) == 0 && c.isPending(h.XID)
	}
	body := b[h.Len:]
	return len(body) >= rpcMinLen && binary.BigEndian.Uint32(body[4:]) == 1
}

func (c *Conn) isPending(xid uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending.find(xid) != nil
}

// takeReply gives a reply to the call that it answers, and says whether it did.
// What matches no call, or not what the call offered, is dropped; only a valid
// reply moves the window (R8166-040).
func (c *Conn) takeReply(h *Header, r *recvCtx) bool {
	c.mu.Lock()
	k := c.pending.find(h.XID)
	if k == nil || !k.accept(h, r) {
		c.mu.Unlock()
		return false
	}
	k.recv = r
	late := c.answer(k)
	// Where calls go both ways RDMA_NOMSG does not say whose credits it carries (R8167-006).
	if h.Proc == ProcMsg || c.cfg.Handler == nil {
		c.credits.grant(h.Credits)
		c.wakeWaiters()
	}
	c.mu.Unlock()
	if late {
		c.settleLate(k)
	}
	return true
}

// takeError ends the call that the peer could not take: it is permanent (R8166-154).
func (c *Conn) takeError(h *Header) {
	c.mu.Lock()
	k := c.pending.find(h.XID)
	if k == nil {
		c.mu.Unlock()
		return // also what a responder does with any of these (R8166-114)
	}
	k.err = ErrChunk
	if h.Err == CodeVers {
		k.err = ErrVersion
	}
	late := c.answer(k)
	if c.cfg.Handler == nil {
		c.credits.grant(h.Credits)
		c.wakeWaiters()
	}
	c.mu.Unlock()
	if late {
		c.settleLate(k)
	}
}

// accept judges a reply against what the call offered and notes where it lies.
// False: the header is not that of an answer to this call, and is dropped
// (R8166-149). A reply that is one but has used the chunks wrongly ends the call.
// The caller holds Conn.mu.
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
	k.long = h.Proc == ProcNoMsg
	k.streamOff, k.placed = h.Len, int(items)
	switch {
	case k.long && whole < rpcMinLen, !k.long && whole > 0:
		k.err = ErrBadReply
	case k.long:
		k.placed = int(whole)
	case binary.BigEndian.Uint32(r.buf[h.Len:]) != k.xid: // R8166-105
		return false
	}
	return true
}
