// What a received segment is allowed to do, check by check in the order that decides which error is told.

package rnic

import (
	"errors"
	"math"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// Faults of inbound segments.
var (
	errMSN       = term.New(term.DDPMSNRange, "")
	errNoBuffer  = term.New(term.DDPNoBuffer, "no receive posted")
	errNoIRD     = term.New(term.DDPNoBuffer, "more RDMA Reads than the IRD agreed on")
	errMO        = term.New(term.DDPInvalidMO, "")
	errLong      = term.New(term.DDPTooLong, "")
	errMixed     = term.New(term.RDMAPOpcode, "the opcode changed within a message")
	errUnserved  = term.New(term.RDMAPOpcode, "opcode not supported")
	errReadCut   = term.New(term.RDMAPStream, "RDMA Read Request in more than one segment")
	errNoRead    = term.New(term.RDMAPOpcode, "RDMA Read Response with no Read outstanding")
	errWrongSink = term.New(term.DDPInvalidSTag, "RDMA Read Response for another STag")
	errSinkRange = term.New(term.DDPBounds, "RDMA Read Response out of place")
	errInvGone   = term.New(term.RDMAPCannotInvalidate, "")
	errBadTerm   = errors.New("rnic: malformed Terminate message")
	errInvOther  = term.New(term.RDMAPForeignInvalidate, "")
)

// writeFaults are the codes of a refused RDMA Write or Read Response (RFC 5041
// §7.1). DDP has no code for a right that is not granted.
var writeFaults = [...]*term.Error{
	memSTag:   term.New(term.DDPInvalidSTag, ""),
	memAssoc:  term.New(term.DDPSTagNotOfStream, ""),
	memAccess: term.New(term.DDPInvalidSTag, "right not granted"),
	memWrap:   term.New(term.DDPWrap, ""),
	memBounds: term.New(term.DDPBounds, ""),
}

// segment judges one segment, places its payload and does what it says. Every
// check comes before any octet is placed; the first that fails ends the stream.
// length is the ULPDU's; when ulpdu is only the beginning of it, with the whole header,
// the rest of the payload is expected by land.
func (r *receiver) segment(ulpdu []byte, length int) error {
	h, payload, err := ddp.Parse(ulpdu)
	if err != nil {
		return err
	}
	op, err := rdmap.ParseControl(h.Ctrl)
	if err != nil {
		return err
	}
	if op > rdmap.OpTerminate && !r.qp.dev.cfg.Extensions {
		return errUnserved
	}
	if op == rdmap.OpTerminate {
		return r.terminated(&h, payload)
	}
	if err := op.Check(h.Tagged, h.QN); err != nil {
		return err
	}
	n := length - h.Len()
	switch op {
	case rdmap.OpReadRequest:
		return r.readRequest(&h, payload, length)
	case rdmap.OpAtomicRequest:
		return r.atomicRequest(&h, payload, length)
	case rdmap.OpAtomicResponse:
		return r.atomicAnswered(&h, payload)
	case rdmap.OpImmediate, rdmap.OpImmediateSE:
		return r.immediate(op, &h, payload)
	case rdmap.OpWrite:
		err = r.write(&h, payload, n)
	case rdmap.OpReadResponse:
		err = r.response(&h, payload, n)
	default:
		err = r.send(op, &h, payload, n)
	}
	if err != nil {
		return err
	}
	if len(payload) < n {
		r.land.set(&h, op, ulpdu, len(payload), length)
		return nil
	}
	return r.placedAll(op, &h)
}

// placedAll ends the message whose last segment is all in its memory.
func (r *receiver) placedAll(op rdmap.Opcode, h *ddp.Header) error {
	switch {
	case !h.Last || op == rdmap.OpWrite:
		return nil
	case op == rdmap.OpReadResponse:
		return r.answered()
	}
	return r.received(op, STag(h.Inv))
}

// send judges a segment of a Send, of n octets, and places what there is of it in
// the oldest posted buffer.
func (r *receiver) send(op rdmap.Opcode, h *ddp.Header, payload []byte, n int) error {
	if h.MSN != r.sendMSN {
		return errMSN
	}
	if !r.open {
		wr, ok := r.qp.rq.take()
		if !ok {
			return errNoBuffer
		}
		if wr.Buf == nil && wr.Pool != nil {
			wr.Buf = wr.Pool.Get()
		}
		r.open, r.op, r.recv, r.placed = true, op, wr, 0
	} else if op != r.op {
		return errMixed
	}
	if n == 0 {
		return nil
	}
	if h.MO != r.placed {
		return errMO
	}
	if uint64(h.MO)+uint64(n) > min(uint64(len(r.recv.Buf)), math.MaxUint32) { // R5041-055
		return errLong
	}
	copy(r.recv.Buf[h.MO:], payload)
	r.placed += uint32(n)
	return nil
}

// received completes the receive: remote invalidation first, so that the ULP
// finds it done (RFC 5040 §6: completion rules).
func (r *receiver) received(op rdmap.Opcode, inv STag) error {
	wc := WC{ID: r.recv.ID, QP: r.qp, Op: OpRecv, Len: r.placed, Buf: r.recv.Buf, Solicited: op.Solicited()}
	if op.Invalidates() {
		switch r.qp.dev.remoteInvalidate(r.qp, inv) {
		case memSTag:
			return errInvGone
		case memAssoc:
			return errInvOther
		}
		wc.Invalidated = inv
	}
	r.qp.rq.pop()
	r.open, r.recv = false, RecvWR{}
	r.sendMSN++
	if !r.qp.recvCQ.push(wc) {
		return ErrCQOverrun
	}
	return nil
}

// write places what there is of an RDMA Write's segment of n octets. An empty one
// is not checked (R5041-065).
func (r *receiver) write(h *ddp.Header, payload []byte, n int) error {
	if n == 0 {
		return nil
	}
	if r.mr == nil || r.mr.index != h.STag>>8 || r.mr.gone.Load() {
		if r.mr = r.qp.dev.stags.lookup(STag(h.STag)); r.mr == nil {
			return writeFaults[memSTag]
		}
	}
	return r.place(r.mr, h, payload, n, RemoteWrite)
}

// place judges all n octets of a segment and puts payload, the first of them,
// into mr, whose lock it holds meanwhile.
func (r *receiver) place(mr *MR, h *ddp.Header, payload []byte, n int, need Access) error {
	mr.mu.RLock()
	off, f := mr.judge(r.qp, STag(h.STag), h.TO, uint64(n), need)
	if f == memOK {
		copy(mr.buf[off:], payload)
	}
	mr.mu.RUnlock()
	if f != memOK {
		return writeFaults[f]
	}
	return nil
}

// response places what there is of a segment, of n octets, of the response to the
// oldest of our Reads.
func (r *receiver) response(h *ddp.Header, payload []byte, n int) error {
	if r.read == nil {
		if r.read = r.qp.sq.oldestRead(); r.read == nil || r.read.Op.atomic() {
			r.read = nil
			return errNoRead
		}
		r.readDone = 0
	}
	e := r.read
	if n > 0 {
		if STag(h.STag) != e.sinkSTag {
			return errWrongSink
		}
		if h.TO != e.sinkTO()+uint64(r.readDone) {
			return errSinkRange
		}
	}
	end := uint64(r.readDone) + uint64(n)
	if end > uint64(e.length) || h.Last != (end == uint64(e.length)) {
		return errSinkRange
	}
	if n > 0 {
		if err := r.place(e.MR, h, payload, n, LocalWrite); err != nil {
			return err
		}
	}
	r.readDone = uint32(end)
	r.pulled.Add(uint64(n))
	return nil
}

// answered completes the oldest of our Reads.
func (r *receiver) answered() error {
	e := r.read
	if e.Op == OpReadInvalidate {
		e.MR.Invalidate()
	}
	r.read = nil
	return r.qp.readDone(e)
}

// readRequest queues the response to a Read of the peer's; the receiver never
// waits for the transmitter.
func (r *receiver) readRequest(h *ddp.Header, payload []byte, ulpduLen int) error {
	if h.MSN != r.readMSN {
		return errMSN
	}
	sq := &r.qp.sq
	if sq.irqFull() {
		return errNoIRD
	}
	if len(payload) > 0 && h.MO != 0 {
		return errMO
	}
	if !h.Last {
		return errReadCut
	}
	q, err := rdmap.ParseReadRequest(payload)
	if err != nil {
		return err
	}
	if q.Size > 0 { // R5040-109: a Read of nothing names no memory
		if f := r.judgeRead(&q); f != memOK {
			return readFaults[f]
		}
	}
	r.readMSN++
	resp := readResponse{sinkSTag: STag(q.SinkSTag), sinkTO: q.SinkTO, size: q.Size,
		srcSTag: STag(q.SrcSTag), srcTO: q.SrcTO, length: uint16(ulpduLen)}
	h.Put(resp.ddp[:])
	sq.pushIRQ(&resp)
	return nil
}

func (r *receiver) judgeRead(q *rdmap.ReadRequest) memFault {
	mr := r.qp.dev.stags.lookup(STag(q.SrcSTag))
	if mr == nil {
		return memSTag
	}
	mr.mu.RLock()
	defer mr.mu.RUnlock()
	_, f := mr.judge(r.qp, STag(q.SrcSTag), q.SrcTO, uint64(q.Size), RemoteRead)
	return f
}

// terminated ends the stream as the peer says. A bad Terminate is answered with
// nothing (RFC 5040 §7.1).
func (r *receiver) terminated(h *ddp.Header, payload []byte) error {
	if h.Tagged || h.QN != ddp.QNTerminate || h.MSN != 1 || h.MO != 0 || !h.Last {
		return errBadTerm
	}
	t, err := term.Parse(payload, !r.begun)
	if err != nil {
		return err
	}
	return &term.PeerError{Code: t.Code, SegLen: t.SegLen, STag: t.STag()}
}
