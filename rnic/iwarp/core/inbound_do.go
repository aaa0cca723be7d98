// Execution of a checked segment: placement, completion, queueing of responses.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// do executes an action returned by check. Its errors are refused memory, a full CQ, and the peer's
// Terminate.
//
// The caller holds the owner's lock, as for check. Under the owner's lock do takes the lock of a
// Memory Region (Borrow until Return), or Work's lock with the CQ's inside; rnic/doc.go has the
// order of all locks.
func (in *Inbound) do(a *action) error {
	switch a.kind {
	case actReadRequest:
		in.queueReadRequest(a)
		return nil
	case actAtomic:
		return in.doAtomic(a)
	case actAtomicEnd:
		in.atomicMSN++
		in.oldestRead().Value = a.original.Original
		return in.readDone()
	case actImmediate:
		return in.doImmediate(a)
	case actTerminate:
		return a.cause
	}
	if err := in.placePayload(a); err != nil {
		return err
	}
	// Direct placement: the header and the checks are done for all n bytes, but the payload is
	// incomplete.
	if len(a.payload) < a.n {
		in.placement.begin(in, a)
		return nil
	}
	return in.placed(a.op, a.h.Last, rnic.STag(a.h.Inv))
}

// placePayload places the received payload, after the memory check for all of it.
func (in *Inbound) placePayload(a *action) error {
	switch a.kind {
	case actReceive:
		in.placeSend(a)
		return nil
	case actWrite:
		if a.n == 0 { // nothing is placed, so nothing is checked (RFC 5041 §5.2 [R5041-065])
			return nil
		}
		in.mr = in.q.Find(in.mr, rnic.STag(a.h.STag))
		return in.placeTagged(in.mr, a, rnic.RemoteWrite)
	}
	return in.placeResponse(a)
}

// placeSend places payload in the message's buffer, taken by its first segment.
func (in *Inbound) placeSend(a *action) {
	r := &in.recv
	if !r.open {
		wr, _ := in.q.NextRecv() // check has seen this receive, and only this loop takes receives
		if wr.Buf == nil && wr.Pool != nil {
			wr.Buf = bufferFor(wr.Pool, a)
		}
		*r = inboundSend{open: true, op: a.op, wr: wr}
	}
	if a.n > 0 {
		// check has compared MO and n with this buffer, and no other segment has come since.
		copy(r.wr.Buf[a.h.MO:], a.payload)
		r.placed += uint32(a.n)
	}
}

// bufferFor returns a buffer for the message begun by a segment: a small one if the segment is a
// complete small message.
func bufferFor(p *rnic.BufferPool, a *action) []byte {
	if a.h.Last {
		return p.GetFor(a.n)
	}
	return p.Get()
}

// placeTagged checks all n bytes of a segment and places the received ones in mr.
//
// The check and the copy are under one lock, the region's: after Invalidate has returned, no byte
// from the peer reaches the memory (RFC 5040 §8.1.1 [R5040-209]). mr is the last region found for
// the STag, checked again by Borrow; Borrow refuses nil like any unknown STag.
func (in *Inbound) placeTagged(mr *rnic.MR, a *action, need rnic.Access) error {
	p, f := in.q.Borrow(mr, rnic.STag(a.h.STag), a.h.TO, a.n, need)
	if f != rnic.MemOK {
		return taggedFaults[f]
	}
	copy(p, a.payload)
	in.q.Return(mr)
	return nil
}

// placeResponse places payload in our oldest Read's sink.
func (in *Inbound) placeResponse(a *action) error {
	// The entry stays in the send queue until readComplete. A flush takes the owner's lock first,
	// through Stop, so the entry cannot vanish during a response.
	if in.read.e == nil {
		in.read = inboundRead{e: in.oldestRead()}
	}
	if a.n > 0 {
		if err := in.placeTagged(in.read.e.MR, a, rnic.LocalWrite); err != nil {
			return err
		}
	}
	in.read.done += uint32(a.n)
	in.unreported.bytes += uint64(a.n)
	return nil
}

// placed ends a message once its last segment is completely placed.
func (in *Inbound) placed(op rdmap.Opcode, last bool, inv rnic.STag) error {
	switch {
	case !last || op == rdmap.OpWrite:
		return nil
	case op == rdmap.OpReadResponse:
		return in.readComplete()
	}
	return in.sendComplete(op, inv)
}

// sendComplete completes the receive: remote invalidation first, so that the ULP finds the STag
// invalid (RFC 5040 §6).
func (in *Inbound) sendComplete(op rdmap.Opcode, inv rnic.STag) error {
	r := &in.recv
	// Reads completed before a Send are reported before it.
	if err := in.reportReads(); err != nil {
		return err
	}
	wc := rnic.WC{ID: r.wr.ID, Op: rnic.OpRecv, Len: r.placed, Buf: r.wr.Buf, Solicited: op.Solicited()}
	if op.Invalidates() {
		// Invalidation comes before the completion, and must succeed: a Send with a refused
		// invalidation completes no receive. Otherwise the ULP would trust its data and consider
		// the STag invalid, although it is still valid.
		switch in.q.RemoteInvalidate(inv) {
		case rnic.MemSTag:
			return errInvGone
		case rnic.MemAssoc:
			return errInvOther
		}
		wc.Invalidated = inv
	}
	in.q.PopRecv()
	*r = inboundSend{}
	in.sendMSN++
	if !in.q.CompleteRecv(wc) {
		return rnic.ErrCQOverrun
	}
	return nil
}

// readComplete completes our oldest Read.
func (in *Inbound) readComplete() error {
	e := in.read.e
	if e.Op == rnic.OpReadInvalidate {
		e.MR.Invalidate()
	}
	in.read = inboundRead{}
	return in.readDone()
}

// readDone counts an answer to our oldest Read or atomic operation.
func (in *Inbound) readDone() error {
	if in.unreported.done++; in.unreported.done < maxUnreported {
		return nil
	}
	return in.reportReads()
}

// queueReadRequest queues the response to a peer's Read; the receive loop never waits for the
// transmitter, so that two peers with full TCP windows cannot block each other.
func (in *Inbound) queueReadRequest(a *action) {
	in.readMSN++
	q, r := &a.read, in.newPeerRequest()
	*r = peerRequest{sinkSTag: rnic.STag(q.SinkSTag), sinkTO: q.SinkTO, size: q.Size,
		srcSTag: rnic.STag(q.SrcSTag), srcTO: q.SrcTO, length: uint16(a.length)}
	a.h.Put(r.ddp[:])
}

// doImmediate completes the oldest receive with eight bytes that bypass its buffer.
func (in *Inbound) doImmediate(a *action) error {
	if err := in.reportReads(); err != nil {
		return err
	}
	wr, _ := in.q.NextRecv() // check has seen it
	in.q.PopRecv()
	in.sendMSN++
	if !in.q.CompleteRecv(rnic.WC{ID: wr.ID, Op: rnic.OpRecv, Solicited: a.op.Solicited(), Immediate: true, Value: a.value}) {
		return rnic.ErrCQOverrun
	}
	return nil
}

// doAtomic executes a peer's atomic operation and queues the response.
func (in *Inbound) doAtomic(a *action) error {
	before, f := in.q.Atomic(rnic.STag(a.atomic.STag), a.atomic.TO,
		func(v uint64) uint64 { return apply(&a.atomic, v) })
	if f != rnic.MemOK {
		return requestFaults[f]
	}
	in.readMSN++
	r := in.newPeerRequest()
	*r = peerRequest{atomic: true, atomicID: a.atomic.ID, original: before, length: uint16(a.length)}
	a.h.Put(r.ddp[:])
	return nil
}
