// RDMA Reads and atomic operations on their way: ours, at most ORD, and the peer's, at most IRD.

package core

import "github.com/nfsrdma/nfsrdma/rnic"

// readsOut is our requests that the peer has not answered, as indexes into the send queue, oldest
// first: the peer answers in order (RFC 5040 §6.1). Requests [head, made) are whole in a batch, and
// the peer might answer them; [made, tail) have been taken to be made. Guarded by Work.mu; indexes
// count for ever. The receive loop alone writes head, but for clear, and reads what of the ring it
// knows to be made without the lock.
type readsOut struct {
	ord              uint32 // how many may be outstanding
	ring             []uint32
	mask             uint32
	head, made, tail uint32
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

func (r *readsOut) clear() { r.head, r.made = r.tail, r.tail }

// readsIn is the peer's requests: responses [head, next) have been begun, [next, tail) not, and
// [head, built) are whole in a batch. Guarded by Work.mu; the transmitter alone touches what it has
// begun, and the receive loop, which alone writes tail, what comes after that.
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

// room is how many more there may be, of those that were agreed on. A
// response that is whole in a batch does not count: the peer might have it, and
// its next Read be here, before the write to TCP has returned.
func (r *readsIn) room() int {
	return min(int(r.ird)-int(r.tail-r.built), int(r.mask+1)-int(r.tail-r.head))
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

// readsMade is how many of our requests the peer might answer. For the receive loop: readAt takes
// numbers below it until readsDone.
func (w *Work) readsMade() uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reads.made - w.reads.head
}

// readAt is our request after i older ones. It is without the lock, which readsMade has taken since
// the request was made: neither the place in the ring nor the entry is used again before readsDone.
func (w *Work) readAt(i uint32) *entry {
	r := &w.reads
	return w.sq.At(r.ring[(r.head+i)&r.mask])
}

// readsDone completes our n oldest requests; work that waited for them can go on. Fails with
// ErrCQOverrun.
func (w *Work) readsDone(n uint32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range min(n, w.reads.made-w.reads.head) { // fewer: flushed meanwhile
		w.readAt(0).Done = true
		w.reads.head++
	}
	if !w.retire() {
		return rnic.ErrCQOverrun
	}
	return nil
}

// readsRoom is how many more requests the peer may have here. It grows, unless answers are pushed.
func (w *Work) readsRoom() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.irq.ring == nil {
		w.irq.ring = make([]answer, w.irq.mask+1) // made by the first: most connections have none
	}
	return w.irq.room()
}

// answerAt is where the answer goes that follows i others that are not yet pushed: there is room.
// Nobody else looks there before pushAnswers.
func (w *Work) answerAt(i uint32) *answer {
	r := &w.irq
	return &r.ring[(r.tail+i)&r.mask]
}

// pushAnswers queues n answers that have been put where answerAt says.
func (w *Work) pushAnswers(n uint32) {
	w.mu.Lock()
	w.irq.tail += n
	w.mu.Unlock()
}
