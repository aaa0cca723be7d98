// Doing what a checked segment asks for: placement, completion, queueing of responses.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// do does what check has let pass. Its errors are those of memory that is refused, of a CQ
// that is full, and the peer's own.
//
// Under the owner's lock, like check before it. Below it come the lock of a Memory Region (Borrow
// until Return), or that of Work with the CQ's inside; the order of all of them is in rnic/doc.go.
func (in *Inbound) do(a *action) error {
	switch a.kind {
	case actAnswer:
		in.queueAnswer(a)
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
	// Direct placement: the header and the checks are done for all n bytes, the payload is not here
	// yet.
	if len(a.payload) < a.n {
		in.place.begin(in, a)
		return nil
	}
	return in.placed(a.op, a.h.Last, rnic.STag(a.h.Inv))
}

// placePayload places what there is of the payload, after the check of memory for all of it.
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

// placeSend places payload in the buffer of the message, which its first segment takes.
func (in *Inbound) placeSend(a *action) {
	r := &in.recv
	if !r.open {
		wr, _ := in.q.NextRecv() // check has seen it, and only this loop takes one
		if wr.Buf == nil && wr.Pool != nil {
			wr.Buf = bufferFor(wr.Pool, a)
		}
		*r = receiving{open: true, op: a.op, wr: wr}
	}
	if a.n > 0 {
		// check has held MO and n against this buffer, and nothing has come between.
		copy(r.wr.Buf[a.h.MO:], a.payload)
		r.placed += uint32(a.n)
	}
}

// bufferFor returns a buffer for the message that a segment begins: a small one if that is all of a
// small message.
func bufferFor(p *rnic.BufferPool, a *action) []byte {
	if a.h.Last {
		return p.GetFor(a.n)
	}
	return p.Get()
}

// placeTagged checks all n bytes of a segment and places what there is of them in mr.
//
// The check and the copy are under one lock, the region's: after Invalidate has returned, no byte
// of the peer's reaches the memory any more (RFC 5040 §8.1.1 [R5040-209]). mr is what was last
// found for the STag, which Borrow checks again; nil is refused there like any STag that names
// nothing.
func (in *Inbound) placeTagged(mr *rnic.MR, a *action, need rnic.Access) error {
	p, f := in.q.Borrow(mr, rnic.STag(a.h.STag), a.h.TO, a.n, need)
	if f != rnic.MemOK {
		return taggedFaults[f]
	}
	copy(p, a.payload)
	in.q.Return(mr)
	return nil
}

// placeResponse places payload in the sink of our oldest Read.
func (in *Inbound) placeResponse(a *action) error {
	// The entry stays in the send queue until readComplete; a flush takes the owner's lock first,
	// through Stop, so it is not taken away under a response.
	if in.read.e == nil {
		in.read = reading{e: in.oldestRead()}
	}
	if a.n > 0 {
		if err := in.placeTagged(in.read.e.MR, a, rnic.LocalWrite); err != nil {
			return err
		}
	}
	in.read.done += uint32(a.n)
	in.owed.bytes += uint64(a.n)
	return nil
}

// placed ends the message whose last segment is all in its memory.
func (in *Inbound) placed(op rdmap.Opcode, last bool, inv rnic.STag) error {
	switch {
	case !last || op == rdmap.OpWrite:
		return nil
	case op == rdmap.OpReadResponse:
		return in.readComplete()
	}
	return in.sendComplete(op, inv)
}

// sendComplete completes the receive: remote invalidation first, so that the ULP
// finds it done (RFC 5040 §6).
func (in *Inbound) sendComplete(op rdmap.Opcode, inv rnic.STag) error {
	r := &in.recv
	// What was asked for, and was answered, before a Send is told of before it.
	if err := in.settle(); err != nil {
		return err
	}
	wc := rnic.WC{ID: r.wr.ID, Op: rnic.OpRecv, Len: r.placed, Buf: r.wr.Buf, Solicited: op.Solicited()}
	if op.Invalidates() {
		// Before the completion, and all or nothing: a Send whose invalidation is refused completes
		// no receive. The ULP would take the data of it for valid, and the STag for dead, and it is
		// not.
		switch in.q.RemoteInvalidate(inv) {
		case rnic.MemSTag:
			return errInvGone
		case rnic.MemAssoc:
			return errInvOther
		}
		wc.Invalidated = inv
	}
	in.q.PopRecv()
	*r = receiving{}
	in.sendMSN++
	if !in.q.CompleteRecv(wc) {
		return rnic.ErrCQOverrun
	}
	return nil
}

// readComplete completes the oldest of our Reads.
func (in *Inbound) readComplete() error {
	e := in.read.e
	if e.Op == rnic.OpReadInvalidate {
		e.MR.Invalidate()
	}
	in.read = reading{}
	return in.readDone()
}

// readDone notes that our oldest Read or atomic operation has been answered.
func (in *Inbound) readDone() error {
	if in.owed.done++; in.owed.done < owedMost {
		return nil
	}
	return in.settle()
}

// queueAnswer queues the response to a Read of the peer's; the receive loop never waits for the
// transmitter, so that two peers with full TCP windows cannot block each other.
func (in *Inbound) queueAnswer(a *action) {
	in.readMSN++
	q, r := &a.read, in.newAnswer()
	*r = answer{sinkSTag: rnic.STag(q.SinkSTag), sinkTO: q.SinkTO, size: q.Size,
		srcSTag: rnic.STag(q.SrcSTag), srcTO: q.SrcTO, length: uint16(a.length)}
	a.h.Put(r.ddp[:])
}

// doImmediate completes the oldest receive with eight bytes that do not go into its buffer.
func (in *Inbound) doImmediate(a *action) error {
	if err := in.settle(); err != nil {
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

// doAtomic does an atomic operation of the peer's and queues the response.
func (in *Inbound) doAtomic(a *action) error {
	before, f := in.q.Atomic(rnic.STag(a.atomic.STag), a.atomic.TO,
		func(v uint64) uint64 { return apply(&a.atomic, v) })
	if f != rnic.MemOK {
		return requestFaults[f]
	}
	in.readMSN++
	r := in.newAnswer()
	*r = answer{atomic: true, atomicID: a.atomic.ID, original: before, length: uint16(a.length)}
	a.h.Put(r.ddp[:])
	return nil
}
