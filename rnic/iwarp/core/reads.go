// RDMA Reads and atomic operations on their way: ours, at most ORD, and the peer's, at most IRD.

package core

import "github.com/nfsrdma/nfsrdma/rnic"

// readsOut is our requests that the peer has not answered, as indexes into the send queue, oldest
// first: the peer answers in order (RFC 5040 §6.1). Guarded by Work.mu; indexes count for ever.
type readsOut struct {
	ord        uint32 // how many may be outstanding
	ring       []uint32
	mask       uint32
	head, tail uint32
}

func (r *readsOut) init(ord int) {
	n := ringSize(max(ord, 1))
	r.ord, r.ring, r.mask = uint32(ord), make([]uint32, n), uint32(n-1)
}

func (r *readsOut) count() uint32 { return r.tail - r.head }

func (r *readsOut) push(i uint32) {
	r.ring[r.tail&r.mask] = i
	r.tail++
}

func (r *readsOut) clear() { r.head = r.tail }

// readsIn is the peer's requests: responses [head, next) have been begun, [next, tail) not, and
// [head, built) are whole in a batch. Guarded by Work.mu; the transmitter alone touches what it has begun.
type readsIn struct {
	ird                     uint32 // how many the peer may have outstanding
	ring                    []answer
	mask                    uint32
	head, built, next, tail uint32
}

func (r *readsIn) init(ird int) {
	r.ird = uint32(ird)
	r.mask = uint32(ringSize(2*max(ird, 1)) - 1) // those that leave at this moment, and those that follow them
}

func (r *readsIn) waiting() bool { return r.next != r.tail }
func (r *readsIn) empty() bool   { return r.head == r.tail }

// full reports whether all inbound Reads that were agreed on are here. A
// response that is whole in a batch does not count: the peer might have it, and
// its next Read be here, before the write to TCP has returned.
func (r *readsIn) full() bool { return r.tail-r.built >= r.ird || r.tail-r.head > r.mask }

func (r *readsIn) push(a *answer) {
	if r.ring == nil {
		r.ring = make([]answer, r.mask+1) // made by the first: most connections have none
	}
	r.ring[r.tail&r.mask] = *a
	r.tail++
}

func (r *readsIn) begin() *answer {
	r.next++
	return &r.ring[(r.next-1)&r.mask]
}

// taken drops responses whose last byte is with TCP, which has taken the stream up to pos.
func (r *readsIn) taken(pos uint64) {
	for r.head != r.next {
		if a := &r.ring[r.head&r.mask]; !a.built || a.end > pos {
			return
		}
		r.head++
	}
}

func (r *readsIn) clear() { r.head, r.next, r.built = r.tail, r.tail, r.tail }

// ringSize is the power of two that holds n entries.
func ringSize(n int) int {
	size := 1
	for size < n {
		size <<= 1
	}
	return size
}

// oldestRead is the request that the next response is for, nil when none is outstanding.
func (w *Work) oldestRead() *entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reads.count() == 0 {
		return nil
	}
	return w.sq.At(w.reads.ring[w.reads.head&w.reads.mask])
}

// readDone completes e, our oldest request, with value where it is an atomic operation; work
// that waited for it can go on. Fails with ErrCQOverrun.
func (w *Work) readDone(e *entry, value uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reads.count() == 0 {
		return nil // flushed meanwhile
	}
	w.reads.head++
	e.Done, e.Value = true, value
	if !w.retire() {
		return rnic.ErrCQOverrun
	}
	return nil
}

// readsFull reports whether another request of the peer's would be one too many.
func (w *Work) readsFull() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.irq.full()
}

func (w *Work) pushAnswer(a *answer) {
	w.mu.Lock()
	w.irq.push(a)
	w.mu.Unlock()
}
