// Sends: work requests are checked and passed to the provider, which keeps them in a ring.

package rnic

import (
	"math"
	"sync"
)

// postings holds reused lists of checked work requests. A list passed through an interface escapes
// to the heap; these lists are passed on instead of PostSend's argument, which can then stay on the
// stack.
var postings = sync.Pool{New: func() any { return new([]Posted) }}

// PostSend queues the work requests, all or none, in order. It never blocks: if no other goroutine
// is transmitting, the caller's goroutine passes to the kernel as much as it accepts, and leaves
// the rest to the provider. Work requests from one call share system calls and packets.
func (qp *QP) PostSend(wrs ...SendWR) error {
	if len(wrs) == 0 {
		return nil
	}
	list := postings.Get().(*[]Posted)
	defer func() {
		clear(*list)
		*list = (*list)[:0]
		postings.Put(list)
	}()
	for i := range wrs {
		n, err := qp.checkSend(&wrs[i])
		if err != nil {
			return err
		}
		*list = append(*list, Posted{SendWR: wrs[i], Bytes: n})
	}
	return qp.ep.PostSend(*list)
}

// TakesSources reports whether a Write may have a Source, and is then cheaper than with payload in
// memory. It is false before the connection, and constant during it.
func (qp *QP) TakesSources() bool { return qp.sources.Load() }

// checkSend checks a work request before it is queued, and returns its message length in bytes.
func (qp *QP) checkSend(wr *SendWR) (n uint32, err error) {
	if wr.Source != nil {
		if !qp.TakesSources() || wr.Op != OpWrite {
			return 0, errSource
		}
	}
	switch wr.Op {
	case OpSend, OpSendSE, OpWrite:
		return sum(wr.SGL)
	case OpSendImmediate, OpSendSEImmediate, OpWriteImmediate, OpWriteSEImmediate:
		if !qp.dev.caps.ImmediateData {
			return 0, errNoExtension
		}
		return sum(wr.SGL)
	case OpSendInvalidate, OpSendSEInvalidate:
		if wr.Invalidate == 0 {
			return 0, errNoInv
		}
		return sum(wr.SGL)
	case OpRead, OpReadInvalidate:
		return wr.Length, qp.checkSink(wr)
	case OpImmediate, OpImmediateSE, OpFetchAdd, OpCmpSwap, OpSwap:
		return 8, qp.checkExtension(wr)
	case OpLocalInvalidate:
		if wr.MR == nil || wr.MR.pd != qp.pd {
			return 0, errNoMR
		}
		return 0, nil
	}
	return 0, errOpcode
}

// checkExtension checks Immediate Data and atomic operations, which some providers lack.
func (qp *QP) checkExtension(wr *SendWR) error {
	switch {
	case wr.Op.IsAtomic() && !qp.dev.caps.Atomics, wr.Op.IsImmediate() && !qp.dev.caps.Immediate:
		return errNoExtension
	case wr.Op.IsAtomic() && wr.Atomic == nil:
		return errNoOperands
	case wr.Op.IsAtomic() && wr.RemoteTO%8 != 0:
		return errUnaligned
	}
	return nil
}

// checkSink checks the sink of an RDMA Read.
func (qp *QP) checkSink(wr *SendWR) error {
	mr := wr.MR
	if mr == nil || mr.pd != qp.pd {
		return errNoMR
	}
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	_, f := mr.check(qp, mr.STag(), mr.base+wr.Offset, uint64(wr.Length), LocalWrite)
	if wr.Offset > math.MaxUint32 || f != MemOK {
		return errReadSink
	}
	return nil
}

// sum returns the length of a message gathered from sgl. Only this function adds up the length,
// because a large Write may have a thousand slices.
func sum(sgl [][]byte) (n uint32, err error) {
	var bytes uint64
	for _, b := range sgl {
		bytes += uint64(len(b))
	}
	if bytes > math.MaxUint32 { // RFC 5040 §1.1 [R5040-001], RFC 5041 §5.2 [R5041-055]
		return 0, errTooLong
	}
	return uint32(bytes), nil
}

// A Posted is a work request checked by the QP, on its way to the provider.
type Posted struct {
	SendWR
	Bytes uint32 // message length: sum of SGL; a Read's Length; 8 for Immediate Data and atomics
}

// A SendEntry is a posted work request in progress. T is the provider's data for the entry.
type SendEntry[T any] struct {
	SendWR
	Bytes    uint32 // message length
	Internal bool   // posted by the provider itself, and not reported to the ULP
	Done     bool   // completes as soon as all older entries have
	Status   Status // valid when Done
	Value    uint64 // atomic operation: the value before
	P        T      // when pushed, as left by an earlier entry
}

// A SendQueue is the ring of one QP's posted work. Entries [head, next) have been begun or are
// done, and wait for older ones; [next, tail) have not been begun. The indexes only grow and are
// masked on use. A SendQueue has no lock: its owner guards it.
type SendQueue[T any] struct {
	// set once
	depth int
	mask  uint32
	q     *ProviderQP
	pool  *sync.Pool // of *SendChunk[T]

	ring             []*SendChunk[T] // see At
	head, next, tail uint32
	open             bool // posts are accepted
}

// A SendChunk is a piece of the ring. It exists only while it holds work: most connections have a
// deep queue with few entries.
type SendChunk[T any] [sendChunkEntries]SendEntry[T]

const sendChunkEntries = 16

// Init makes an empty queue for depth entries, closed. pool holds *SendChunk[T] and is shared by
// many queues.
func (sq *SendQueue[T]) Init(q *ProviderQP, depth int, pool *sync.Pool) {
	sq.q, sq.pool, sq.depth = q, pool, max(depth, 1)
	size := ringSize(sq.depth + sendChunkEntries) // so that no chunk has entries from both ends
	sq.ring, sq.mask = make([]*SendChunk[T], size/sendChunkEntries), uint32(size-1)
}

// Open makes the queue accept posts; Close ends that.
func (sq *SendQueue[T]) Open()  { sq.open = true }
func (sq *SendQueue[T]) Close() { sq.open = false }

// Room returns nil if n more entries fit, else ErrState or ErrSQFull.
func (sq *SendQueue[T]) Room(n int) error {
	switch {
	case !sq.open:
		return ErrState
	case int(sq.tail-sq.head)+n > sq.depth:
		return ErrSQFull
	}
	return nil
}

// Push appends a work request and returns its index, for At; the caller has checked Room.
func (sq *SendQueue[T]) Push(p *Posted) (i uint32) {
	c := &sq.ring[(sq.tail&sq.mask)/sendChunkEntries]
	if *c == nil {
		*c = sq.pool.Get().(*SendChunk[T])
	}
	i = sq.tail
	sq.tail++
	e := sq.At(i)
	e.SendWR, e.Bytes = p.SendWR, p.Bytes
	return i
}

// At returns entry i, one of [head, tail).
func (sq *SendQueue[T]) At(i uint32) *SendEntry[T] {
	return &sq.ring[(i&sq.mask)/sendChunkEntries][i%sendChunkEntries]
}

// Waiting returns the number of entries not begun.
func (sq *SendQueue[T]) Waiting() int { return int(sq.tail - sq.next) }

// Next returns the oldest entry not begun, or nil.
func (sq *SendQueue[T]) Next() *SendEntry[T] {
	if sq.next == sq.tail {
		return nil
	}
	return sq.At(sq.next)
}

// Last returns the newest entry; it has not been retired.
func (sq *SendQueue[T]) Last() *SendEntry[T] { return sq.At(sq.tail - 1) }

// Begin marks Next as begun, and returns its index for At.
func (sq *SendQueue[T]) Begin() uint32 {
	sq.next++
	return sq.next - 1
}

// Begun returns the index range [from, to) of begun entries not yet retired.
func (sq *SendQueue[T]) Begun() (from, to uint32) { return sq.head, sq.next }

// Empty reports whether every entry has been retired.
func (sq *SendQueue[T]) Empty() bool { return sq.head == sq.tail }

// Retire completes the done entries at the head of the queue, in posting order regardless of their
// kind, and reports whether the CQ had room. It calls internal, unless nil, for the provider's own
// entries.
func (sq *SendQueue[T]) Retire(internal func(Status)) (fits bool) {
	fits = true
	cq, put, due := sq.q.sendCQ, false, sq.q.scheduler == nil // due: notify the handler soon
	for sq.head != sq.next {
		e := sq.At(sq.head)
		if !e.Done {
			break
		}
		switch {
		case e.Internal && internal != nil:
			internal(e.Status)
		case !e.Internal && (!e.Unsignaled || e.Status != WCSuccess):
			if !put { // one lock and one wake-up for all done entries
				put = true
				cq.mu.Lock()
			}
			fits = cq.put(&WC{QP: (*QP)(sq.q), ID: e.ID, Op: e.Op, Status: e.Status, Len: e.Bytes, Value: e.Value}) && fits
			due = due || e.Hint != HintDeferred || e.Status != WCSuccess
		}
		e.SendWR = SendWR{} // releases the memory it points at
		e.Internal, e.Done, e.Status, e.Value = false, false, WCSuccess, 0
		sq.head++
		sq.vacate()
	}
	if !put {
		return fits
	}
	wakes := cq.added(due)
	cq.mu.Unlock()
	if wakes {
		cq.wakeWaiter()
	}
	return fits
}

// vacate returns the chunk before head to the pool once its last entry, or the whole queue's, has
// been retired. The chunk holds no entry in [head, tail), so no entry of the chunk is in use.
func (sq *SendQueue[T]) vacate() {
	if sq.head%sendChunkEntries == 0 || sq.head == sq.tail {
		c := &sq.ring[((sq.head-1)&sq.mask)/sendChunkEntries]
		sq.pool.Put(*c)
		*c = nil
	}
}

// Flush completes all unfinished entries as flushed, oldest first, and closes the queue. All
// entries then count as begun.
func (sq *SendQueue[T]) Flush(internal func(Status)) {
	sq.open = false
	sq.next = sq.tail
	for i := sq.head; i != sq.tail; i++ {
		if e := sq.At(i); !e.Done {
			e.Done, e.Status = true, WCFlushErr
		}
	}
	sq.Retire(internal)
}
