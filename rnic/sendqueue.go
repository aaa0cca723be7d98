// The send queue: a ring of posted work that software providers keep.

package rnic

import "sync"

// A Posted is a work request that the QP has checked, on its way to the provider.
type Posted struct {
	SendWR
	Bytes uint32 // of the message: the sum of SGL; Length of a Read; 8 of Immediate Data and atomics
}

// A SendEntry is a posted work request on its way. T is what the provider keeps with it.
type SendEntry[T any] struct {
	SendWR
	Bytes    uint32 // of the message
	Internal bool   // posted by the provider itself: the ULP is told nothing of it
	Done     bool   // it completes as soon as all older ones have
	Status   Status // how, when Done
	Value    uint64 // atomic operation: what was there before
	P        T      // as an earlier entry left it, when pushed
}

// A SendQueue is the ring of posted work of one QP. Entries [head, next) have been begun or
// are done, and wait for older ones; [next, tail) have not been begun. The indexes count
// for ever and are masked on use. It has no lock: its owner guards it.
type SendQueue[T any] struct {
	// set once
	depth int
	mask  uint32
	q     *ProviderQP
	pool  *sync.Pool // of *SendChunk[T]

	ring             []*SendChunk[T] // see At
	head, next, tail uint32
	open             bool // posts are taken
}

// A SendChunk is a piece of the ring. It is there only while it holds work: most connections have a
// deep queue and little in it.
type SendChunk[T any] [sendChunkEntries]SendEntry[T]

const sendChunkEntries = 16

// Init makes an empty queue for depth entries, closed. pool is of *SendChunk[T], and many queues
// share it.
func (sq *SendQueue[T]) Init(q *ProviderQP, depth int, pool *sync.Pool) {
	sq.q, sq.pool, sq.depth = q, pool, max(depth, 1)
	size := ringSize(sq.depth + sendChunkEntries) // so that no chunk has entries of both ends
	sq.ring, sq.mask = make([]*SendChunk[T], size/sendChunkEntries), uint32(size-1)
}

// Open has posts taken from now on; Close ends that.
func (sq *SendQueue[T]) Open()  { sq.open = true }
func (sq *SendQueue[T]) Close() { sq.open = false }

// Room returns why n more entries are not taken: ErrState or ErrSQFull.
func (sq *SendQueue[T]) Room(n int) error {
	switch {
	case !sq.open:
		return ErrState
	case int(sq.tail-sq.head)+n > sq.depth:
		return ErrSQFull
	}
	return nil
}

// Push appends a work request and returns its index, for At; Room has been asked.
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

// At is entry i, one of [head, tail).
func (sq *SendQueue[T]) At(i uint32) *SendEntry[T] {
	return &sq.ring[(i&sq.mask)/sendChunkEntries][i%sendChunkEntries]
}

// Waiting is how many entries have not been begun.
func (sq *SendQueue[T]) Waiting() int { return int(sq.tail - sq.next) }

// Next is the oldest entry that has not been begun, nil when there is none.
func (sq *SendQueue[T]) Next() *SendEntry[T] {
	if sq.next == sq.tail {
		return nil
	}
	return sq.At(sq.next)
}

// Last is the entry that was pushed last; it has not been retired.
func (sq *SendQueue[T]) Last() *SendEntry[T] { return sq.At(sq.tail - 1) }

// Begin counts Next as begun, and returns the index that it keeps for At.
func (sq *SendQueue[T]) Begin() uint32 {
	sq.next++
	return sq.next - 1
}

// Begun is the range of indexes of entries that have been begun and not been retired: [from, to).
func (sq *SendQueue[T]) Begun() (from, to uint32) { return sq.head, sq.next }

// Empty reports whether every entry has been retired.
func (sq *SendQueue[T]) Empty() bool { return sq.head == sq.tail }

// Retire completes what is done at the head of the queue, in posting order whatever its kind, and
// reports whether the CQ had room. internal, which may be nil, is told of entries of the provider's
// own.
func (sq *SendQueue[T]) Retire(internal func(Status)) (fits bool) {
	fits = true
	cq, put, due := sq.q.sendCQ, false, sq.q.scheduler == nil // due: the handler is to be told soon
	for sq.head != sq.next {
		e := sq.At(sq.head)
		if !e.Done {
			break
		}
		switch {
		case e.Internal && internal != nil:
			internal(e.Status)
		case !e.Internal && (!e.Unsignaled || e.Status != WCSuccess):
			if !put { // one lock, and one word to those who wait, for all that is done
				put = true
				cq.mu.Lock()
			}
			fits = cq.put(&WC{QP: (*QP)(sq.q), ID: e.ID, Op: e.Op, Status: e.Status, Len: e.Bytes, Value: e.Value}) && fits
			due = due || !e.Deferred || e.Status != WCSuccess
		}
		e.SendWR = SendWR{} // what it pointed at can be collected
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

// vacate returns the chunk before head to the pool when the last entry of it has been retired, or
// of the whole queue: nobody holds an entry that is not in [head, tail), and none of those is in
// it.
func (sq *SendQueue[T]) vacate() {
	if sq.head%sendChunkEntries == 0 || sq.head == sq.tail {
		c := &sq.ring[((sq.head-1)&sq.mask)/sendChunkEntries]
		sq.pool.Put(*c)
		*c = nil
	}
}

// Flush completes all that is not complete as flushed, oldest first, and takes no more. Everything
// is begun then.
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
