// The receive queue: buffers for inbound Sends, in posting order.

package rnic

import "sync"

// A recvQueue is a ring of runs of posted receives. head and tail only grow and are masked on use.
// Consecutive receives with one pool and one ID form one run: most connections post many and use
// few.
type recvQueue struct {
	depth int // set once

	mu sync.Mutex
	// ring is guarded by mu, as is all below; it has grown to the most runs posted at once.
	ring       []recvRun
	mask       uint32
	head, tail uint32
	posted     int // receives in all runs
	closed     bool
}

// A recvRun is n identical receives.
type recvRun struct {
	RecvWR
	n int
}

// PostRecv queues receive buffers, all or none, in order, also before the QP is connected. A
// completion, also a flushed one, returns the buffer to the caller.
func (qp *QP) PostRecv(wrs ...RecvWR) error {
	first, err := qp.rq.post(wrs)
	if first {
		qp.ep.ReceivesPosted()
	}
	return err
}

// takes reports whether wr equals the receives of the run.
func (r *recvRun) takes(wr *RecvWR) bool {
	return r.Pool != nil && r.Pool == wr.Pool && r.ID == wr.ID && r.Buf == nil && wr.Buf == nil
}

func (rq *recvQueue) init(depth int) {
	rq.depth = max(depth, 1)
}

// post queues receives, all or none. first: the queue was empty before.
func (rq *recvQueue) post(wrs []RecvWR) (first bool, err error) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if rq.closed {
		return false, ErrState
	}
	if rq.posted+len(wrs) > rq.depth {
		return false, ErrRQFull
	}
	first = rq.posted == 0 && len(wrs) > 0
	rq.posted += len(wrs)
	for i := range wrs {
		if rq.head != rq.tail {
			if last := &rq.ring[(rq.tail-1)&rq.mask]; last.takes(&wrs[i]) {
				last.n++
				continue
			}
		}
		rq.grow()
		rq.ring[rq.tail&rq.mask] = recvRun{wrs[i], 1}
		rq.tail++
	}
	return first, nil
}

// count returns the number of posted receives.
func (rq *recvQueue) count() int {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	return rq.posted
}

// grow makes room for one more run. The caller holds mu.
func (rq *recvQueue) grow() {
	need := int(rq.tail-rq.head) + 1
	if need <= len(rq.ring) {
		return
	}
	size := ringSize(need)
	ring, mask := make([]recvRun, size), uint32(size-1)
	for i := rq.head; i != rq.tail; i++ {
		ring[i&mask] = rq.ring[i&rq.mask]
	}
	rq.ring, rq.mask = ring, mask
}

// ringSize returns the smallest power of two of at least depth.
func ringSize(depth int) int {
	n := 1
	for n < depth {
		n <<= 1
	}
	return n
}

// next returns the oldest receive, for the message that begins now. It stays posted until pop, so
// that a flush cannot lose it.
func (rq *recvQueue) next() (RecvWR, bool) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if rq.head == rq.tail {
		return RecvWR{}, false
	}
	return rq.ring[rq.head&rq.mask].RecvWR, true
}

// pop removes the receive returned by next: its message is complete.
func (rq *recvQueue) pop() {
	rq.mu.Lock()
	rq.posted--
	if run := &rq.ring[rq.head&rq.mask]; run.n > 1 {
		run.n--
	} else {
		*run = recvRun{}
		rq.head++
	}
	rq.mu.Unlock()
}

// flush completes every posted buffer as flushed, oldest first, and closes the queue.
func (rq *recvQueue) flush(qp *QP) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	rq.closed = true
	for ; rq.head != rq.tail; rq.head++ {
		run := &rq.ring[rq.head&rq.mask]
		for range run.n {
			qp.recvCQ.push(WC{ID: run.ID, QP: qp, Op: OpRecv, Status: WCFlushErr}, true)
		}
		*run = recvRun{}
	}
	rq.posted = 0
}

// NextRecv returns the oldest posted receive. It stays posted until PopRecv, so that the end of the
// QP flushes it if its message stays incomplete.
func (q *ProviderQP) NextRecv() (RecvWR, bool) { return q.rq.next() }

// Receives returns the number of posted receives, NextRecv's included.
func (q *ProviderQP) Receives() int { return q.rq.count() }

// PopRecv removes the receive returned by NextRecv: its message is complete. The caller completes
// it.
func (q *ProviderQP) PopRecv() { q.rq.pop() }
