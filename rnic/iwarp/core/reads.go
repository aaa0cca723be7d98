// RDMA Reads and atomic operations in flight: ours, at most ORD, and the peer's, at most IRD.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
)

// awaited reports whether the peer answers a work request, which then counts for the ORD: Reads,
// and operations on the same queue (RFC 7306 §5.2).
func awaited(op rnic.Opcode) bool {
	return op == rnic.OpRead || op == rnic.OpReadInvalidate || op.IsAtomic()
}

// sinkTO returns the tagged offset of a Read's sink; an empty Read needs no sink.
func sinkTO(e *entry) uint64 {
	if e.MR == nil {
		return 0
	}
	return e.MR.Base() + e.Offset
}

// readsOut lists our unanswered requests as indexes into the send queue, oldest first: the peer
// answers in order (RFC 5040 §6.1). Requests [head, made) are complete in a batch, so the peer
// might answer them; [made, tail) have been taken but not built. Work.mu guards it; indexes only
// grow. Only the receive loop writes head, except for clear; without the lock it reads the entries
// known to be made.
type readsOut struct {
	ord              uint32 // limit for outstanding requests
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

// A peerRequest is one inbound Read Request or atomic operation, held until TCP has its response's
// last byte (RFC 5040 §6.1).
type peerRequest struct {
	sinkSTag, srcSTag rnic.STag
	sinkTO, srcTO     uint64
	size              uint32
	ddp               [ddp.UntaggedLen]byte // the request's header, for a Terminate
	length            uint16                // the request's ULPDU length
	built             bool
	end               uint64 // stream position after the response's last byte, once built

	atomic   bool // an Atomic Response with the values below; the operation is done
	atomicID uint32
	original uint64
}

// readsIn lists the peer's requests: responses [head, next) have been begun, [next, tail) not, and
// [head, built) are complete in a batch. Work.mu guards it. Only the transmitter touches begun
// entries. Only the receive loop writes tail, and touches entries after it.
type readsIn struct {
	ird                     uint32 // limit for the peer's outstanding requests
	ring                    []peerRequest
	mask                    uint32
	head, built, next, tail uint32
}

func (r *readsIn) init(ird int) {
	r.ird = uint32(ird)
	r.mask = uint32(ringSize(2*max(ird, 1)) - 1) // for leaving responses and new requests
}

func (r *readsIn) waiting() bool { return r.next != r.tail }
func (r *readsIn) empty() bool   { return r.head == r.tail }

// room returns how many more requests the peer may send under the negotiated limit. A response
// complete in a batch does not count: the peer might have it, and its next Read might arrive,
// before the write to TCP has returned.
func (r *readsIn) room() int {
	return min(int(r.ird)-int(r.tail-r.built), int(r.mask+1)-int(r.tail-r.head))
}

func (r *readsIn) begin() *peerRequest {
	r.next++
	return &r.ring[(r.next-1)&r.mask]
}

// taken drops the responses completely taken by TCP, which has taken the stream up to pos.
func (r *readsIn) taken(pos uint64) {
	for r.head != r.next {
		if a := &r.ring[r.head&r.mask]; !a.built || a.end > pos {
			return
		}
		r.head++
	}
}

func (r *readsIn) clear() { r.head, r.next, r.built = r.tail, r.tail, r.tail }

// ringSize returns the smallest power of two that is at least n.
func ringSize(n int) int {
	size := 1
	for size < n {
		size <<= 1
	}
	return size
}

// readsMade returns how many of our requests the peer might answer. The receive loop calls it:
// readAt then takes smaller numbers until readsDone.
func (w *Work) readsMade() uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reads.made - w.reads.head
}

// readAt returns our request after i older ones. It needs no lock, because readsMade has taken the
// lock since the request was made: neither the ring's slot nor the entry is reused before
// readsDone.
func (w *Work) readAt(i uint32) *entry {
	r := &w.reads
	return w.sq.At(r.ring[(r.head+i)&r.mask])
}

// readsDone completes our n oldest requests; work that waited for them can continue. It fails with
// ErrCQOverrun.
func (w *Work) readsDone(n uint32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range min(n, w.reads.made-w.reads.head) { // fewer if the stream was flushed meanwhile
		w.readAt(0).Done = true
		w.reads.head++
	}
	if !w.retire() {
		return rnic.ErrCQOverrun
	}
	return nil
}

// readsRoom returns how many more requests the peer may send. The number only grows until requests
// are pushed.
func (w *Work) readsRoom() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.irq.ring == nil {
		w.irq.ring = make([]peerRequest, w.irq.mask+1) // on first use: most peers send no Reads
	}
	return w.irq.room()
}

// peerRequestAt returns the entry for a new request after i others not yet pushed. The caller has
// checked for room. No other goroutine reads it before pushPeerRequests.
func (w *Work) peerRequestAt(i uint32) *peerRequest {
	r := &w.irq
	return &r.ring[(r.tail+i)&r.mask]
}

// pushPeerRequests queues n requests stored in the entries from peerRequestAt.
func (w *Work) pushPeerRequests(n uint32) {
	w.mu.Lock()
	w.irq.tail += n
	w.mu.Unlock()
}
