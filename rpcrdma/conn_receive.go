// Inbound, for both roles: receives, completions, and which messages are replies, calls, or dropped.

package rpcrdma

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A recvCtx is one receive. It is posted, or it belongs to the Request or Call whose
// message it holds, or to responder.grant when fewer are needed.
type recvCtx struct {
	id  uint64 // set once
	buf []byte // of receives.buffers; nil while it is posted
	n   int    // bytes received
}

// receives are all of a connection, of both roles: a posted receive takes whichever
// message comes next.
type receives struct {
	buffers *rnic.BufferPool // set once; the streams of replies are made in its buffers too

	mu  sync.Mutex
	all []*recvCtx // guarded by mu; by the index in their work request ids; it only grows
}

// receivePools are the pools of receive buffers, by their size: one for all connections that
// have the same. They are the RNIC's, which takes from them when a message begins to arrive.
var receivePools sync.Map // int to *rnic.BufferPool

func receiveBuffers(size int) *rnic.BufferPool {
	if p, ok := receivePools.Load(size); ok {
		return p.(*rnic.BufferPool)
	}
	p, _ := receivePools.LoadOrStore(size, rnic.NewBufferPool(size))
	return p.(*rnic.BufferPool)
}

// add posts n more receives. They take buffers of the pool when messages arrive.
func (rs *receives) add(qp *rnic.QP, n int) error {
	ctxs := make([]recvCtx, n)
	wrs := make([]rnic.RecvWR, n)
	rs.mu.Lock()
	rs.all = slices.Grow(rs.all, n)
	for i := range wrs {
		r := &ctxs[i]
		r.id = wrRecv | uint64(len(rs.all))
		rs.all = append(rs.all, r)
		wrs[i] = rnic.RecvWR{ID: r.id, Pool: rs.buffers}
	}
	rs.mu.Unlock()
	return qp.PostRecv(wrs...)
}

// at is the receive of an index.
func (rs *receives) at(index int) *recvCtx {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.all[index]
}

// repost gives a receive back to the receive queue, and its buffer to the pool (RFC 8166 §3.3.1 [R8166-032]). After
// the end of the connection that fails, and nobody needs it.
func (c *Conn) repost(r *recvCtx) {
	c.receives.buffers.Put(r.buf)
	r.buf = nil
	if !c.responder.retire(r) {
		_ = c.qp.PostRecv(rnic.RecvWR{ID: r.id, Pool: c.receives.buffers})
	}
}

// onCompletions empties the completion queue. It runs on a loop of the QP.
func (c *Conn) onCompletions() {
	for {
		n := c.cq.Poll(c.wcs[:])
		if n == 0 {
			return
		}
		for i := range c.wcs[:n] {
			c.complete(&c.wcs[i])
		}
		c.postWaiting()
	}
}

func (c *Conn) complete(wc *rnic.WC) {
	ok := wc.Status == rnic.WCSuccess
	index := int(wc.ID &^ wrKindMask)
	switch wc.ID & wrKindMask {
	case wrRecv:
		if !ok {
			return // flushed: watch ends the connection
		}
		// The receive is ours, with the pool's buffer in it, until a role or receive posts it again.
		r := c.receives.at(index)
		r.buf, r.n = wc.Buf, int(wc.Len)
		c.receive(r)
	case wrCall:
		c.workDone()
		c.requester.sendCompleted(index)
	case wrReply:
		c.workDone()
		c.responder.replySent(index, ok)
	case wrPull:
		c.workDone()
		c.responder.pulled(index, ok)
	}
}

// workDone notes that a signalled work request has completed.
func (c *Conn) workDone() {
	c.posted.Add(-1)
	c.progress.Add(1)
}

// receive takes in one message and gives it to the role that it is for. The order of the cases
// matters: an RDMA_ERROR is always for the requester, whatever its version; a message with a
// broken header is for the requester, and dropped, when a call of its XID waits, since it can
// as well be the spoiled reply to that; and only what is left is a call. A message
// is dropped by posting its receive again at once (RFC 8166 §3.3.1 [R8166-032]).
func (c *Conn) receive(r *recvCtx) {
	b, h := r.buf[:r.n], &c.in
	err := h.Parse(b)
	taken := false
	switch {
	case errors.Is(err, errHeaderShort): // RFC 8166 §4.5 [R8166-146]
	case h.Proc == ProcError:
		if err == nil {
			c.requester.takeError(h)
		}
	case err == nil && h.Proc == procDone: // RFC 8166 §4.6.2 [R8166-175]
	case err == nil && c.isReply(h, b):
		taken = c.requester.takeReply(h, r)
	case c.responder.handler == nil, len(b) < minCallLen: // RFC 8166 §4.2.4 [R8166-113], RFC 8166 §4.5 [R8166-146]
	case err != nil && c.requester.isPending(h.XID): // RFC 8166 §4.5 [R8166-149]
	default:
		c.responder.takeCall(r)
		taken = true
	}
	if !taken {
		c.repost(r)
	}
}

// isReply reports the direction of a message (RFC 8166 §2.2.2 [R8166-001]). RDMA_NOMSG does not say
// it: a reply of that kind has no Read list, which every such call has.
func (c *Conn) isReply(h *Header, b []byte) bool {
	if h.Proc == ProcNoMsg {
		return len(h.Read) == 0 && c.requester.isPending(h.XID)
	}
	body := b[h.Len:]
	return len(body) >= rpcMinLen && binary.BigEndian.Uint32(body[4:]) == 1
}
