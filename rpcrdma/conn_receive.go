// Inbound, for both roles: receives, completions, and which messages are replies, calls, or
// dropped.

package rpcrdma

import (
	"encoding/binary"
	"errors"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A recvCtx is a receive that holds a message. It belongs to the Request or Call whose message that
// is. Receives that are posted are all alike, and have none.
type recvCtx struct {
	buf []byte // of receives.buffers
	n   int    // bytes received
}

// receives are all of a connection, of both roles: a posted receive takes whichever
// message comes next.
type receives struct {
	buffers *rnic.BufferPool // set once; the streams of replies are made in its buffers too

	mu   sync.Mutex
	all  int        // guarded by mu, as is free: receives there are, posted or not; it only grows
	free []*recvCtx // as many as once held messages at the same time
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
	rs.mu.Lock()
	rs.all += n
	rs.mu.Unlock()
	return rs.post(qp, n)
}

// post posts n receives, which the RNIC keeps as one run.
func (rs *receives) post(qp *rnic.QP, n int) error {
	for range n {
		if err := qp.PostRecv(rnic.RecvWR{ID: wrRecv, Pool: rs.buffers}); err != nil {
			return err
		}
	}
	return nil
}

// take returns a receive for a message of n bytes that has arrived in buf.
func (rs *receives) take(buf []byte, n int) *recvCtx {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	last := len(rs.free) - 1
	if last < 0 {
		return &recvCtx{buf, n}
	}
	r := rs.free[last]
	rs.free = rs.free[:last]
	r.buf, r.n = buf, n
	return r
}

// put takes back what take returned, whose message nobody needs any more.
func (rs *receives) put(r *recvCtx) {
	rs.buffers.Put(r.buf)
	r.buf = nil
	rs.mu.Lock()
	rs.free = append(rs.free, r)
	rs.mu.Unlock()
}

// repost gives a receive back to the receive queue, and its buffer to the pool (RFC 8166 §3.3.1
// [R8166-032]). After the end of the connection that fails, and nobody needs it.
func (c *Conn) repost(r *recvCtx) {
	c.receives.put(r)
	if !c.responder.retire() {
		_ = c.receives.post(c.qp, 1)
	}
}

// A completions is what one Poll takes.
type completions [32]rnic.WC

// completionPool is of *completions, for handlers at work: connections that are idle have none.
var completionPool = sync.Pool{New: func() any { return new(completions) }}

// onCompletions empties the completion queue. It runs on a loop of the QP.
func (c *Conn) onCompletions() {
	wcs := completionPool.Get().(*completions)
	defer completionPool.Put(wcs)
	for {
		n := c.cq.Poll(wcs[:])
		if n == 0 {
			return
		}
		for i := range wcs[:n] {
			c.complete(&wcs[i])
		}
		clear(wcs[:n]) // what they point at can be collected
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
		// The receive is ours, with the pool's buffer in it, until a role or receive posts it
		// again.
		c.receive(c.receives.take(wc.Buf, int(wc.Len)))
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
