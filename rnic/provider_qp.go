// What a provider may do to a QP: memory on the peer's behalf, receives, completions, and its
// state.

package rnic

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/nfsrdma/nfsrdma/internal/tally"
)

// A ProviderQP is a QP as its provider sees it. Programs never get hold of one. Methods
// may be called from any goroutine; none waits for the network or runs a CQ handler but Notify.
type ProviderQP QP

// QP is the same QP as programs see it.
func (q *ProviderQP) QP() *QP { return (*QP)(q) }

// EndpointOf is what a provider has made for qp.
func EndpointOf(qp *QP) Endpoint { return qp.ep }

// Tally is the sum of Device.Mechanisms, which an Endpoint joins while it is connected. Its lock
// comes after all locks of an Endpoint that calls Join or Leave.
func (q *ProviderQP) Tally() *tally.Sum { return &q.dev.tally }

// Find returns the Memory Region that has the index of s, whatever its key, or nil. hint, if not
// nil, is the one that was found last.
func (q *ProviderQP) Find(hint *MR, s STag) *MR {
	if hint != nil && hint.index == uint32(s)>>8 && !hint.gone.Load() {
		return hint
	}
	return q.dev.stags.lookup(s)
}

// Check reports whether this QP may use all n bytes at tagged offset to of the region under s.
func (q *ProviderQP) Check(mr *MR, s STag, to uint64, n int, need Access) MemFault {
	_, f := q.Borrow(mr, s, to, n, need)
	if f == MemOK {
		q.Return(mr)
	}
	return f
}

// Borrow returns the n bytes at tagged offset to of the region under s once every check has
// passed, and holds the region as it is until Return. With a fault there is nothing to return.
// Whoever borrows does not wait for anything meanwhile: Invalidate waits for Return.
func (q *ProviderQP) Borrow(mr *MR, s STag, to uint64, n int, need Access) ([]byte, MemFault) {
	if mr == nil {
		return nil, MemSTag
	}
	mr.mu.RLock()
	off, f := mr.check((*QP)(q), s, to, uint64(n), need)
	if f != MemOK {
		mr.mu.RUnlock()
		return nil, f
	}
	return mr.buf[off : off+n : off+n], MemOK
}

// Return ends what Borrow began.
func (q *ProviderQP) Return(mr *MR) { mr.mu.RUnlock() }

// Pin notes, while mr is borrowed, that something which waits to be sent points into its
// memory: Endpoint.Release is called when that is to be given back. Unpin ends it.
func (q *ProviderQP) Pin(mr *MR)   { mr.pins.Add(1) }
func (q *ProviderQP) Unpin(mr *MR) { mr.pins.Add(-1) }

// Atomic replaces the eight bytes at tagged offset to, an integer in the order of this machine,
// by what f makes of them, atomically among all QPs of the device, and returns
// what was there before (RFC 7306 §5.3). to is a multiple of eight, or it is a fault.
func (q *ProviderQP) Atomic(s STag, to uint64, f func(uint64) uint64) (before uint64, fault MemFault) {
	mr := q.dev.stags.lookup(s)
	if mr == nil {
		return 0, MemSTag
	}
	q.dev.atomics.Lock() // two regions may be the same memory
	defer q.dev.atomics.Unlock()
	mr.mu.Lock()
	defer mr.mu.Unlock()
	off, fault := mr.check((*QP)(q), s, to, 8, RemoteAtomic)
	switch {
	case fault != MemOK:
		return 0, fault
	case to%8 != 0:
		return 0, MemAlign
	}
	before = binary.NativeEndian.Uint64(mr.buf[off:])
	binary.NativeEndian.PutUint64(mr.buf[off:], f(before))
	return before, MemOK
}

// RemoteInvalidate does what a Send with Invalidate asks for: MemSTag when s is not valid
// here, MemAssoc when this QP alone does not own it.
func (q *ProviderQP) RemoteInvalidate(s STag) MemFault { return q.dev.remoteInvalidate((*QP)(q), s) }

// NextRecv returns the oldest posted receive. It stays posted until PopRecv, so
// that the end of the QP flushes it if its message is never whole.
func (q *ProviderQP) NextRecv() (RecvWR, bool) { return q.rq.next() }

// Receives is how many receives are posted, that of NextRecv included.
func (q *ProviderQP) Receives() int { return q.rq.count() }

// PopRecv drops the receive that NextRecv has returned: its message is complete. The caller
// completes it.
func (q *ProviderQP) PopRecv() { q.rq.pop() }

// CompleteRecv adds a completion to the receive CQ, as SendQueue.Retire does with those of sends.
// Both report whether there was room within the depth of the CQ; if not, the QP has to end with
// ErrCQOverrun.
func (q *ProviderQP) CompleteRecv(wc WC) bool { wc.QP = (*QP)(q); return q.recvCQ.push(wc, true) }

// Notify runs the handlers of the CQs that have had completions since, and reports whether
// any ran. The caller holds no lock, and is a goroutine of the provider or in Drive.
func (q *ProviderQP) Notify() bool {
	ran := q.recvCQ.notify()
	return q.sendCQ.notify() || ran
}

// Woken reports whether a goroutine in CQ.Wait has been woken by completions since the last call.
// The provider's goroutine that has found nothing more to do then does not stay on the processor
// for it.
func (q *ProviderQP) Woken() bool {
	woken := q.recvCQ.woken.Load() && q.recvCQ.woken.Swap(false)
	return q.sendCQ.woken.Load() && q.sendCQ.woken.Swap(false) || woken
}

// NotifySends is Notify for the CQ of the sends alone.
func (q *ProviderQP) NotifySends() { q.sendCQ.notify() }

// Handling reports whether some goroutine runs a handler of the CQs. Once it does not, after a
// Notify of the caller's, the handlers have had all that was complete before that Notify.
func (q *ProviderQP) Handling() bool { return q.recvCQ.handling() || q.sendCQ.handling() }

// OwesNotify reports whether completions of sends, and not of deferred ones alone, wait for a
// Notify that nobody is going to make.
func (q *ProviderQP) OwesNotify() bool { return q.sendCQ.owes() }

// A Connected describes a connection; the provider gives it once, in Established.
type Connected struct {
	IRD, ORD    int    // as negotiated
	PrivateData []byte // the peer's; copied

	// CRC: all messages have CRCs of the provider's, which the receiver checks.
	CRC bool

	// Sources: a Write may have a Source, and costs less with one than with payload in memory.
	Sources bool
}

// Established brings an idle QP to RTS. It fails when the QP has been closed meanwhile, or is
// connected.
func (q *ProviderQP) Established(c Connected) bool {
	qp := (*QP)(q)
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if !qp.becomeRTS() {
		return false
	}
	qp.connected = c
	qp.connected.PrivateData = slices.Clone(c.PrivateData)
	qp.sources.Store(c.Sources)
	return true
}

// BeginBatch defers the wake-ups of goroutines in Wait until EndBatch, so that a batch of
// completions wakes them once. If it reports true the caller MUST call EndBatch, within
// microseconds.
func (q *ProviderQP) BeginBatch() bool {
	cq := q.sendCQ
	if cq.handler.Load() != nil {
		return false
	}
	cq.mu.Lock()
	cq.batches++
	cq.mu.Unlock()
	return true
}

// EndBatch ends a batch of BeginBatch, and reports whether it has woken a goroutine. The caller
// holds no lock.
func (q *ProviderQP) EndBatch() (woken bool) {
	cq := q.sendCQ
	cq.mu.Lock()
	cq.batches--
	if woken = cq.late && cq.batches == 0; woken {
		cq.late = false
	}
	cq.mu.Unlock()
	if woken {
		cq.wakeWaiter()
	}
	return woken
}

// Resolved sets what QP.Peer returns. It comes before Established.
func (q *ProviderQP) Resolved(peer AddressHandle) {
	qp := (*QP)(q)
	qp.mu.Lock()
	defer qp.mu.Unlock()
	qp.peer = peer
}

// Fail ends a connected QP with err as its cause; the first cause wins, and Fail reports whether it
// was this one. tell: the peer will be told of it, which takes time until Ended. io.EOF after
// Disconnect is the end that both sides wanted, and leaves no error. What is posted has to be
// flushed then: SendQueue.Flush, and Flushed.
func (q *ProviderQP) Fail(err error, tell bool) bool {
	qp := (*QP)(q)
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if qp.failed {
		return false
	}
	qp.failed = true
	if err != io.EOF || qp.state != StateClosing {
		qp.err = err
	}
	if tell {
		qp.becomeTerminate()
	} else {
		qp.becomeError()
	}
	return true
}

// Failed reports whether the QP has a cause to end.
func (q *ProviderQP) Failed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed
}

// Flushed completes all receives as flushed, after the provider has done so with its sends, runs
// the handlers, or waits for who runs them, and closes Done: nothing of the QP is unknown to the
// program then. Nothing is placed any more when it is called, once, not by a handler.
func (q *ProviderQP) Flushed() {
	qp := (*QP)(q)
	qp.rq.flush(qp)
	qp.recvCQ.settle()
	qp.sendCQ.settle()
	qp.pd.detach(qp)
	close(qp.done)
}

// Ended says that the peer has been told, and the connection is gone.
func (q *ProviderQP) Ended() {
	qp := (*QP)(q)
	qp.mu.Lock()
	qp.becomeError()
	qp.mu.Unlock()
}
