// A received segment: all its checks, in the order that decides which error is reported, and then
// its execution: placement, completion, queueing of responses.

package core

import (
	"math"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// An actionKind is the kind of work for a checked segment.
type actionKind uint8

const (
	actReceive     actionKind = iota // place payload in the oldest posted receive
	actWrite                         // place payload at the STag
	actResponse                      // place payload in our oldest Read's sink
	actReadRequest                   // queue the response to a peer's Read
	actAtomic                        // execute an atomic operation and queue its response
	actAtomicEnd                     // complete our oldest atomic operation
	actImmediate                     // complete the oldest receive with Immediate Data
	actTerminate                     // end the stream with the peer's error
)

// An action is a segment that has passed check. do can still refuse it, but only for its memory:
// the one function that checks access (rnic/mr.go) must do so at the moment of placement.
type action struct {
	kind    actionKind
	op      rdmap.Opcode
	h       ddp.Header
	ulpdu   []byte // the received part
	payload []byte // the received part
	// n is the number of payload bytes in the segment: more than received if they are placed
	// directly.
	n      int
	length int // the ULPDU's, in bytes

	read     rdmap.ReadRequest    // actReadRequest
	atomic   rdmap.AtomicRequest  // actAtomic
	original rdmap.AtomicResponse // actAtomicEnd
	value    uint64               // actImmediate
	cause    *term.PeerError      // actTerminate
}

// check makes all checks on a segment that precede placement; the first failure ends the stream.
// length is the ULPDU's. If ulpdu is only its beginning, with the whole header, the rest of the
// payload is placed directly. check changes nothing.
//
// The order follows the layers, from below: the DDP header, RDMAP's control field, the opcode on
// its queue, then the message. So a segment with several faults reports the lowest one, like a
// receiver that passes it up from layer to layer. A Terminate comes before the opcode's own checks
// because a malformed Terminate is never answered with another Terminate.
func (in *Inbound) check(ulpdu []byte, length int) (a action, err error) {
	a.ulpdu, a.length = ulpdu, length
	if a.h, a.payload, err = ddp.Parse(ulpdu); err != nil {
		return a, err
	}
	if a.op, err = rdmap.ParseControl(a.h.Ctrl); err != nil {
		return a, err
	}
	if a.op > rdmap.OpTerminate && !in.extensions {
		return a, errUnserved
	}
	if a.op == rdmap.OpTerminate {
		return a, in.checkTerminate(&a)
	}
	if err := a.op.Check(a.h.Tagged, a.h.QN); err != nil {
		return a, err
	}
	a.n = length - a.h.Len()
	switch a.op {
	case rdmap.OpReadRequest:
		return a, in.checkReadRequest(&a)
	case rdmap.OpAtomicRequest:
		return a, in.checkAtomicRequest(&a)
	case rdmap.OpAtomicResponse:
		return a, in.checkAtomicResponse(&a)
	case rdmap.OpImmediate, rdmap.OpImmediateSE:
		return a, in.checkImmediate(&a)
	case rdmap.OpWrite:
		a.kind = actWrite
		return a, nil
	case rdmap.OpReadResponse:
		return a, in.checkResponse(&a)
	}
	return a, in.checkSend(&a)
}

// checkSend checks a Send's segment against its message and its buffer.
func (in *Inbound) checkSend(a *action) error {
	a.kind = actReceive
	// The message: an MSN other than the next one belongs to no receive. RFC 5041 §7.1 lists MSN,
	// buffer, offset and length in this order, and has a code for each.
	if a.h.MSN != in.sendMSN {
		return errMSN
	}
	room, placed := 0, uint32(0)
	if in.recv.open {
		if a.op != in.recv.op {
			return errMixed
		}
		room, placed = len(in.recv.wr.Buf), in.recv.placed
	} else {
		// The receive is not taken yet: check changes nothing, and placeSend takes it. Meanwhile
		// the receive stays in place, because only this loop takes receives, and a flush waits for
		// the owner's lock.
		wr, ok := in.q.NextRecv()
		if !ok {
			return errNoBuffer
		}
		room = len(wr.Buf)
		// A receive without a buffer gets one from the pool when its Send arrives, so that a
		// thousand idle connections hold none. The buffer has the pool's size, or a small
		// message's.
		if wr.Buf == nil && wr.Pool != nil {
			room = wr.Pool.Size()
		}
	}
	// Nothing is placed, so the offset has no meaning, like the STag of an empty Write.
	if a.n == 0 {
		return nil
	}
	if a.h.MO != placed {
		return errMO
	}
	// The sum is computed in 64 bits, so that an offset near 2^32 does not wrap into the buffer.
	if uint64(a.h.MO)+uint64(a.n) > min(uint64(room), math.MaxUint32) { // RFC 5041 §5.2 [R5041-055]
		return errLong
	}
	return nil
}

// checkResponse checks a Read Response's segment against our oldest Read: the peer answers Reads in
// order, each from its beginning to its end.
func (in *Inbound) checkResponse(a *action) error {
	a.kind = actResponse
	e, done := in.read.e, in.read.done
	if e == nil {
		// The first segment of a response: no message names its Read, so it answers the oldest
		// Read. An atomic operation before it has its own kind of response, which must come first.
		if e = in.oldestRead(); e == nil || e.Op.IsAtomic() {
			return errNoRead
		}
		done = 0
	}
	// The sink must be the request's, byte by byte and without gaps. A response with any other
	// valid STag of ours would write where no Read asked for data.
	if a.n > 0 {
		if rnic.STag(a.h.STag) != e.P.sinkSTag {
			return errWrongSink
		}
		if a.h.TO != sinkTO(e)+uint64(done) {
			return errSinkRange
		}
	}
	end := uint64(done) + uint64(a.n)
	if end > uint64(e.Bytes) || a.h.Last != (end == uint64(e.Bytes)) {
		return errSinkRange
	}
	return nil
}

// checkReadRequest checks a peer's Read, its memory included, so that the peer learns of a bad STag
// before the results of its queued Reads (RFC 5040 §7.2).
func (in *Inbound) checkReadRequest(a *action) (err error) {
	a.kind = actReadRequest
	if a.h.MSN != in.readMSN {
		return errMSN
	}
	if in.readsFull() {
		return errNoIRD
	}
	if len(a.payload) > 0 && a.h.MO != 0 {
		return errMO
	}
	if !a.h.Last {
		return errReadCut
	}
	if a.read, err = rdmap.ParseReadRequest(a.payload); err != nil {
		return err
	}
	if a.read.Size == 0 { // an empty Read names no memory (RFC 5040 §5.2.1 [R5040-109])
		return nil
	}
	// This check only finds the error. It grants nothing later: each response segment borrows the
	// memory again, because the region can be invalidated in between.
	src := rnic.STag(a.read.SrcSTag)
	in.src = in.q.Find(in.src, src)
	if f := in.q.Check(in.src, src, a.read.SrcTO, int(a.read.Size), rnic.RemoteRead); f != rnic.MemOK {
		return requestFaults[f]
	}
	return nil
}

// checkTerminate parses the peer's reason for ending the stream. A bad Terminate gets no answer
// (RFC 5040 §7.1).
func (in *Inbound) checkTerminate(a *action) error {
	a.kind = actTerminate
	h := &a.h
	if h.Tagged || h.QN != ddp.QNTerminate || h.MSN != 1 || h.MO != 0 || !h.Last {
		return errBadTerm
	}
	t, err := term.Parse(a.payload, !in.begun)
	if err != nil {
		return err
	}
	a.cause = &term.PeerError{Code: t.Code, SegLen: t.SegLen, STag: t.STag()}
	return nil
}

// do executes an action returned by check. Its errors are refused memory, a full CQ, and the peer's
// Terminate.
//
// The caller holds the owner's lock, as for check. Under the owner's lock do takes the lock of a
// Memory Region (Borrow until Return), or Work's lock with the CQ's inside; rnic/iwarp/doc.go has
// the order of all locks.
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
