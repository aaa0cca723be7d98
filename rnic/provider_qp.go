// A provider's view of a QP: memory on the peer's behalf, and the QP's state. Its receives are in
// rq.go, its completions in cq.go.

package rnic

import (
	"encoding/binary"
	"io"
	"slices"
)

// A ProviderQP is a provider's view of a QP. Programs never get one. Any goroutine may call its
// methods. None waits for the network, and only Notify and NotifySends run a CQ handler.
type ProviderQP QP

// QP returns the program's view of the same QP.
func (q *ProviderQP) QP() *QP { return (*QP)(q) }

// EndpointOf returns qp's Endpoint, from the provider.
func EndpointOf(qp *QP) Endpoint { return qp.ep }

// Find returns the Memory Region with the index of s and any key, or nil. hint, if not nil, is the
// last result.
func (q *ProviderQP) Find(hint *MR, s STag) *MR {
	if hint != nil && hint.index == uint32(s)>>8 && !hint.gone.Load() {
		return hint
	}
	return q.dev.stags.lookup(s)
}

// Check returns MemOK if this QP may use all n bytes at tagged offset to in the region under s,
// otherwise the fault.
func (q *ProviderQP) Check(mr *MR, s STag, to uint64, n int, need Access) MemFault {
	_, f := q.Borrow(mr, s, to, n, need)
	if f == MemOK {
		q.Return(mr)
	}
	return f
}

// Borrow returns the n bytes at tagged offset to in the region under s once every check has passed,
// and locks the region's state until Return. After a fault there is nothing to return. The borrower
// must not wait meanwhile, because Invalidate waits for Return.
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

// Return ends a Borrow.
func (q *ProviderQP) Return(mr *MR) { mr.mu.RUnlock() }

// Pin records, while mr is borrowed, that a pending transmission points into its memory: Invalidate
// then calls Endpoint.Release. Unpin ends it.
func (q *ProviderQP) Pin(mr *MR)   { mr.pins.Add(1) }
func (q *ProviderQP) Unpin(mr *MR) { mr.pins.Add(-1) }

// Atomic replaces the eight bytes at tagged offset to, an integer in this machine's byte order,
// with f's result, atomically among all QPs of the device. It returns the former value (RFC 7306
// §5.3). An offset that is not a multiple of eight is a fault.
func (q *ProviderQP) Atomic(s STag, to uint64, f func(uint64) uint64) (before uint64, fault MemFault) {
	mr := q.dev.stags.lookup(s)
	if mr == nil {
		return 0, MemSTag
	}
	q.dev.atomics.Lock() // two regions may share memory
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

// RemoteInvalidate performs the invalidation for a Send with Invalidate: MemSTag if s is not valid
// here, MemAssoc unless this QP alone owns it.
func (q *ProviderQP) RemoteInvalidate(s STag) MemFault { return q.dev.remoteInvalidate((*QP)(q), s) }

// A Connected describes a connection; the provider passes it once, to Established.
type Connected struct {
	IRD, ORD    int    // as negotiated
	PrivateData []byte // the peer's; copied

	// CRC: all messages have CRCs of the provider, checked by the receiver.
	CRC bool

	// Sources: a Write may have a Source, and is then cheaper than with payload in memory.
	Sources bool
}

// Established brings an idle QP to RTS. It returns false if the QP was closed meanwhile, or is
// already connected.
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

// Resolved sets the result of QP.Peer. It comes before Established.
func (q *ProviderQP) Resolved(peer AddressHandle) {
	qp := (*QP)(q)
	qp.mu.Lock()
	defer qp.mu.Unlock()
	qp.peer = peer
}

// Fail ends a connected QP with err as its cause. The first cause wins, and Fail reports whether
// err is that cause. With tell the provider sends the peer an error report until Ended. io.EOF
// after Disconnect is the end wanted by both sides, and leaves no error. The provider must then
// flush posted work: SendQueue.Flush, and Flushed.
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

// Flushed completes all receives as flushed, after the provider has flushed its sends. It runs the
// handlers, or waits for the goroutine running them, and closes Done: the program then knows all
// about the QP. No byte is placed any more when it is called, once, not by a handler.
func (q *ProviderQP) Flushed() {
	qp := (*QP)(q)
	qp.rq.flush(qp)
	qp.recvCQ.settle()
	qp.sendCQ.settle()
	qp.pd.detach(qp)
	close(qp.done)
}

// Ended marks the end of the report to the peer and of the connection.
func (q *ProviderQP) Ended() {
	qp := (*QP)(q)
	qp.mu.Lock()
	qp.becomeError()
	qp.mu.Unlock()
}
