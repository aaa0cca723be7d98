// What a received segment is allowed to do, check by check in the order that decides which error is
// told.

package core

import (
	"math"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// An actionKind is what there is to do for a checked segment.
type actionKind uint8

const (
	actReceive   actionKind = iota // place payload in the oldest posted receive
	actWrite                       // place payload where the STag says
	actResponse                    // place payload in the sink of our oldest Read
	actAnswer                      // queue the response to a Read of the peer's
	actAtomic                      // do an atomic operation and queue its response
	actAtomicEnd                   // complete our oldest atomic operation
	actImmediate                   // complete the oldest receive with Immediate Data
	actTerminate                   // end the stream as the peer says
)

// An action is a segment that has passed the checks which need no memory. Only the access to
// memory itself can still be refused, by the one function that does that (rnic/mr.go): it
// has to be checked in the moment in which the bytes are placed.
type action struct {
	kind    actionKind
	op      rdmap.Opcode
	h       ddp.Header
	ulpdu   []byte // what there is of it
	payload []byte // what there is of it
	n       int    // bytes of payload that the segment has; more than there are where it is placed directly
	length  int    // of the ULPDU

	read     rdmap.ReadRequest    // actAnswer
	atomic   rdmap.AtomicRequest  // actAtomic
	original rdmap.AtomicResponse // actAtomicEnd
	value    uint64               // actImmediate
	cause    *term.PeerError      // actTerminate
}

// check is every check on a segment that comes before anything is placed; the first that fails ends
// the stream. length is the ULPDU's; when ulpdu is only the beginning of it, with the whole header,
// the rest of the payload is placed directly. check changes nothing.
//
// The order is that of the layers, from below: the DDP header, RDMAP's control field, the opcode on
// its queue, and then the message. So a segment with several faults is told as the lowest of them,
// as a receiver is built that hands up from layer to layer. A Terminate is taken out before the
// opcode's own checks because a malformed one is never answered with another one.
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

// checkSend checks a segment of a Send against the message that it belongs to and its buffer.
func (in *Inbound) checkSend(a *action) error {
	a.kind = actReceive
	// Which message: an MSN that is not the next one can belong to no receive. MSN, buffer, offset
	// and length come in this order in RFC 5041 §7.1, and are told apart by it.
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
		// Looked at, not taken: check changes nothing, and placeSend takes it. Between the two
		// nobody else can, since this loop alone takes receives, and a flush waits for the owner's
		// lock.
		wr, ok := in.q.NextRecv()
		if !ok {
			return errNoBuffer
		}
		room = len(wr.Buf)
		// A receive without a buffer gets one from the pool when its Send comes, not while it
		// waits: a thousand idle connections hold no buffers. It is as large as the pool's, or as
		// the message.
		if wr.Buf == nil && wr.Pool != nil {
			room = wr.Pool.Size()
		}
	}
	// Nothing is placed, so the offset means nothing, as the STag of a Write of nothing.
	if a.n == 0 {
		return nil
	}
	if a.h.MO != placed {
		return errMO
	}
	// In 64 bits, so that an offset near 2^32 does not wrap into the buffer.
	if uint64(a.h.MO)+uint64(a.n) > min(uint64(room), math.MaxUint32) { // RFC 5041 §5.2 [R5041-055]
		return errLong
	}
	return nil
}

// checkResponse checks a segment of a Read Response against the oldest of our Reads: the
// peer answers them in order, and each from its beginning to its end.
func (in *Inbound) checkResponse(a *action) error {
	a.kind = actResponse
	e, done := in.read.e, in.read.done
	if e == nil {
		// The first segment of a response: no message says which Read it answers, so it is the
		// oldest. An atomic operation in front has a response of its own kind, which has to come
		// first.
		if e = in.oldestRead(); e == nil || e.Op.IsAtomic() {
			return errNoRead
		}
		done = 0
	}
	// The sink is that of the request, byte by byte and without gaps. A peer that answers with
	// another STag of ours, valid as it may be, writes where no Read has asked for anything.
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

// checkReadRequest checks a Read of the peer's; the memory too, so that the peer learns of
// a bad STag before those of its Reads that are queued (RFC 5040 §7.2).
func (in *Inbound) checkReadRequest(a *action) (err error) {
	a.kind = actAnswer
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
	if a.read.Size == 0 { // a Read of nothing names no memory (RFC 5040 §5.2.1 [R5040-109])
		return nil
	}
	// This check is for the error alone. It counts for nothing later: each segment of the response
	// borrows the memory again, since it can be invalidated in between.
	src := rnic.STag(a.read.SrcSTag)
	in.src = in.q.Find(in.src, src)
	if f := in.q.Check(in.src, src, a.read.SrcTO, int(a.read.Size), rnic.RemoteRead); f != rnic.MemOK {
		return requestFaults[f]
	}
	return nil
}

// checkTerminate reads why the peer ends the stream. A bad Terminate is answered with
// nothing (RFC 5040 §7.1).
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

// checkSingle checks what Immediate Data and the messages of atomic operations have in common: one
// segment, and the next of its queue (RFC 7306 §4).
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

// checkAtomicRequest checks an atomic operation of the peer's (RFC 7306 §5).
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

// checkAtomicResponse checks the response to the oldest of our atomic operations.
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
