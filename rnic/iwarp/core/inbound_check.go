// Checks on a received segment, in the order that decides which error is reported.

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

// An action is a segment that has passed all checks without memory. Only the access to memory can
// still be refused, by the one function that checks it (rnic/mr.go): that check must happen at the
// moment of placement.
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

// checkSingle makes the common checks for Immediate Data and atomic messages: the message has one
// segment, and its queue's next MSN (RFC 7306 §4).
func checkSingle(h *ddp.Header, msn uint32) error {
	switch {
	case h.MSN != msn:
		return errMSN
	case h.MO != 0:
		return errMO
	case !h.Last:
		return errExtensionCut
	}
	return nil
}

// checkImmediate checks eight bytes that complete a receive without a buffer (RFC 7306 §6).
func (in *Inbound) checkImmediate(a *action) (err error) {
	a.kind = actImmediate
	if in.recv.open {
		return errMixed
	}
	if err := checkSingle(&a.h, in.sendMSN); err != nil {
		return err
	}
	if _, ok := in.q.NextRecv(); !ok {
		return errNoBuffer
	}
	a.value, err = rdmap.ParseImmediate(a.payload)
	return err
}

// checkAtomicRequest checks an atomic operation from the peer (RFC 7306 §5).
func (in *Inbound) checkAtomicRequest(a *action) (err error) {
	a.kind = actAtomic
	if err := checkSingle(&a.h, in.readMSN); err != nil {
		return err
	}
	if in.readsFull() {
		return errNoIRD
	}
	if a.atomic, err = rdmap.ParseAtomicRequest(a.payload); err != nil {
		return err
	}
	if a.atomic.Op != rdmap.FetchAdd && a.atomic.Op != rdmap.CmpSwap {
		return errAtomicOp
	}
	return nil
}

// checkAtomicResponse checks the response to our oldest atomic operation.
func (in *Inbound) checkAtomicResponse(a *action) (err error) {
	a.kind = actAtomicEnd
	if err := checkSingle(&a.h, in.atomicMSN); err != nil {
		return err
	}
	if a.original, err = rdmap.ParseAtomicResponse(a.payload); err != nil {
		return err
	}
	e := in.oldestRead()
	switch {
	case e == nil || !e.Op.IsAtomic():
		return errAtomicNone
	case a.original.ID != e.P.atomicID:
		return errAtomicID
	}
	return nil
}
