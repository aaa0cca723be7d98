// The receive queue: buffers for inbound Sends, in posting order.

package rnic

import "sync"

// A recvQueue is a ring of posted receive buffers. head and tail count for ever
// and are masked on use.
type recvQueue struct {
	depth int // set once

	mu         sync.Mutex
	ring       []RecvWR // guarded by mu, as is all that follows; as large as what was posted made necessary
	mask       uint32
	head, tail uint32
	closed     bool
}

func (rq *recvQueue) init(depth int) {
	rq.depth = max(depth, 1)
}

// post queues receives, all or none.
func (rq *recvQueue) post(wrs []RecvWR) error {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if rq.closed {
		return ErrState
	}
	if int(rq.tail-rq.head)+len(wrs) > rq.depth {
		return ErrRQFull
	}
	rq.grow(len(wrs))
	for i := range wrs {
		rq.ring[rq.tail&rq.mask] = wrs[i]
		rq.tail++
	}
	return nil
}

// grow makes room for n more, which the depth allows. The caller holds mu.
func (rq *recvQueue) grow(n int) {
	need := int(rq.tail-rq.head) + n
	if need <= len(rq.ring) {
		return
	}
	size := ringSize(need)
	ring, mask := make([]RecvWR, size), uint32(size-1)
	for i := rq.head; i != rq.tail; i++ {
		ring[i&mask] = rq.ring[i&rq.mask]
	}
	rq.ring, rq.mask = ring, mask
}

// ringSize is the power of two that holds depth entries.
func ringSize(depth int) int {
	n := 1
	for n < depth {
		n <<= 1
	}
	return n
}

// next returns the oldest receive, for the message that begins now. It stays
// posted until pop, so that a flush cannot lose it.
func (rq *recvQueue) next() (RecvWR, bool) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if rq.head == rq.tail {
		return RecvWR{}, false
	}
	return rq.ring[rq.head&rq.mask], true
}

// pop drops the receive that next returned: its message is complete.
func (rq *recvQueue) pop() {
	rq.mu.Lock()
	rq.ring[rq.head&rq.mask] = RecvWR{}
	rq.head++
	rq.mu.Unlock()
}

// flush completes every posted buffer as flushed, oldest first, and takes no more.
func (rq *recvQueue) flush(qp *QP) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	rq.closed = true
	for ; rq.head != rq.tail; rq.head++ {
		e := &rq.ring[rq.head&rq.mask]
		qp.recvCQ.push(WC{ID: e.ID, QP: qp, Op: OpRecv, Status: WCFlushErr})
		*e = RecvWR{}
	}
}
