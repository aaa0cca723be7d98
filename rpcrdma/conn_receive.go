// Inbound, for both roles: receives, completions, and the sorting of messages into replies, calls
// and dropped ones.

package rpcrdma

import (
	"encoding/binary"
	"errors"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A recvCtx is a receive that holds a message. It belongs to the Request or Call of that message.
// Posted receives are interchangeable and need no recvCtx.
type recvCtx struct {
	buf []byte // from receives.buffers
	n   int    // bytes received
}

// receives are the connection's receives, shared by both roles: the next message takes any posted
// one.
type receives struct {
	buffers *rnic.BufferPool // set once; streams of replies are built in its buffers too

	mu   sync.Mutex
	all  int        // guarded by mu, as is free: number of receives, posted or not; only grows
	free []*recvCtx // unused ones; all recvCtx together are as many as ever held messages at one time
}

// receivePools has the pools of receive buffers by their size: all connections of one size share a
// pool. The RNIC takes a buffer from the pool when a message begins to arrive.
var receivePools sync.Map // int to *rnic.BufferPool

func receiveBuffers(size int) *rnic.BufferPool {
	if p, ok := receivePools.Load(size); ok {
		return p.(*rnic.BufferPool)
	}
	p, _ := receivePools.LoadOrStore(size, rnic.NewBufferPool(size))
	return p.(*rnic.BufferPool)
}

// add posts n more receives. They take pool buffers when messages arrive.
func (rs *receives) add(qp *rnic.QP, n int) error {
	rs.mu.Lock()
	rs.all += n
	rs.mu.Unlock()
	return rs.post(qp, n)
}

// post posts n receives, which the RNIC stores as one run.
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

// put takes back a receive returned by take, once its message is no longer needed.
func (rs *receives) put(r *recvCtx) {
	rs.buffers.Put(r.buf)
	r.buf = nil
	rs.mu.Lock()
	rs.free = append(rs.free, r)
	rs.mu.Unlock()
}

// repost gives a receive back to the receive queue, and its buffer to the pool (RFC 8166 §3.3.1
// [R8166-032]). After the end of the connection posting fails, which is harmless.
func (c *Conn) repost(r *recvCtx) {
	c.receives.put(r)
	if !c.responder.retire() {
		_ = c.receives.post(c.qp, 1)
	}
}

// A batch is the completions of one Poll. It belongs to the turn of the completion handler and not
// to a goroutine: the next goroutine with the turn handles the remaining completions.
type batch struct {
	wcs     [32]rnic.WC
	next, n int // wcs[next:n] have not been handled
}

// batchPool holds *batch for running handlers: idle connections keep no batch.
var batchPool = sync.Pool{New: func() any { return new(batch) }}

// onCompletions empties the completion queue. It runs on a loop of the QP. leads is false if
// another goroutine has the turn, and the batch, now.
func (c *Conn) onCompletions() (leads bool) {
	if c.batch == nil {
		c.batch = batchPool.Get().(*batch)
	}
	for b := c.batch; ; {
		for b.next < b.n {
			wc := b.wcs[b.next]
			b.wcs[b.next] = rnic.WC{} // so that the completion's buffer can be collected
			b.next++
			if !c.complete(&wc) {
				return false
			}
		}
		if b.n > 0 {
			c.postWaiting()
		}
		b.next, b.n = 0, c.cq.Poll(b.wcs[:])
		if b.n == 0 {
			c.batch = nil
			batchPool.Put(b)
			return true
		}
	}
}

// Follow takes over the receive side of the connection from a ServeRPC that returns false, or will
// return false. It returns when another goroutine has taken over from it, or when the connection
// has ended.
func (c *Conn) Follow() { c.cq.Follow() }

// more reports whether the batch has more completions. Only the handler calls more.
func (c *Conn) more() bool { return c.batch.next < c.batch.n }

// complete handles one completion. leads is ServeRPC's result.
func (c *Conn) complete(wc *rnic.WC) (leads bool) {
	ok := wc.Status == rnic.WCSuccess
	index := int(wc.ID &^ wrKindMask)
	switch wc.ID & wrKindMask {
	case wrRecv:
		if !ok {
			return true // flushed: watch ends the connection
		}
		// The recvCtx with the pool's buffer is ours until a role, or c.receive, posts a receive
		// again.
		return c.receive(c.receives.take(wc.Buf, int(wc.Len)))
	case wrCall:
		c.workDone()
		c.requester.sendCompleted(index)
	case wrReply:
		c.workDone()
		c.responder.replySent(index, ok)
	case wrPull:
		c.workDone()
		return c.responder.pulled(index, ok)
	}
	return true
}

// workDone counts the completion of a signalled work request.
func (c *Conn) workDone() {
	c.posted.Add(-1)
	c.progress.Add(1)
}

// receive parses one message and gives it to its role. The order of the cases matters. An
// RDMA_ERROR of any version is always for the requester. A message with a broken header and the XID
// of a waiting call is dropped: it may be the damaged reply to that call. Everything else is a
// call. A message is dropped by posting its receive again at once (RFC 8166 §3.3.1 [R8166-032]).
// leads is ServeRPC's result.
func (c *Conn) receive(r *recvCtx) (leads bool) {
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
	// RFC 8166 §4.2.4 [R8166-113], RFC 8166 §4.5 [R8166-146]
	case c.responder.handler == nil, len(b) < minCallLen:
	case err != nil && c.requester.isPending(h.XID): // RFC 8166 §4.5 [R8166-149]
	default:
		return c.responder.takeCall(r)
	}
	if !taken {
		c.repost(r)
	}
	return true
}

// isReply reports whether a message is a reply, by its direction (RFC 8166 §2.2.2 [R8166-001]).
// RDMA_NOMSG has no direction word. A call always has a Read list, a reply never, and a reply's XID
// is pending.
func (c *Conn) isReply(h *Header, b []byte) bool {
	if h.Proc == ProcNoMsg {
		return len(h.Read) == 0 && c.requester.isPending(h.XID)
	}
	body := b[h.Len:]
	return len(body) >= rpcMinLen && binary.BigEndian.Uint32(body[4:]) == 1
}
