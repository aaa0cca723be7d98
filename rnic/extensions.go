// RFC 7306, where both ends are configured for it: Immediate Data and atomic operations.

package rnic

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// An Atomic is the operands of an atomic operation on eight octets of the peer's memory,
// an integer in that machine's order of octets (RFC 7306 §5.1).
type Atomic struct {
	Data uint64 // OpFetchAdd: what is added; else what is swapped in

	// Mask: OpFetchAdd: the top bits of fields that are added each for itself, 0 for one
	// field of 64 bits. OpCmpSwap: the bits that are swapped.
	Mask uint64

	// OpCmpSwap: the swap is made if the bits of CompareMask are as in Compare.
	Compare, CompareMask uint64
}

// Faults of the messages of RFC 7306.
var (
	errAtomicOp      = term.New(term.RDMAPOpcode, "not an atomic operation")
	errAtomicAlign   = term.New(term.RDMAPStream, "atomic operation on octets that are not aligned") // RFC 7306 §8.2
	errAtomicNone    = term.New(term.RDMAPOpcode, "Atomic Response with no atomic operation outstanding")
	errAtomicID      = term.New(term.RDMAPStream, "Atomic Response to another request")
	errExtensionCut  = term.New(term.RDMAPStream, "message in more than one segment")
	errNoAtomicArgs  = errors.New("rnic: an atomic operation needs its operands")
	errNoExtensions  = errors.New("rnic: the device is not configured for RFC 7306")
	errRemoteAligned = errors.New("rnic: an atomic operation needs a tagged offset that is a multiple of eight")
)

func (op Opcode) atomic() bool    { return op == OpFetchAdd || op == OpCmpSwap || op == OpSwap }
func (op Opcode) immediate() bool { return op == OpImmediate || op == OpImmediateSE }

// judgeExtension says what is wrong with a work request of RFC 7306 before it is queued.
func (qp *QP) judgeExtension(wr *SendWR) error {
	switch {
	case !qp.dev.cfg.Extensions:
		return errNoExtensions
	case wr.Op.atomic() && wr.Atomic == nil:
		return errNoAtomicArgs
	case wr.Op.atomic() && wr.RemoteTO%8 != 0:
		return errRemoteAligned
	}
	return nil
}

// request is the operands as they go on the wire. A plain swap is a compare and swap that
// compares no bit and swaps all: the RFC gives it no code of its own.
func (e *sendEntry) request() rdmap.AtomicRequest {
	a := rdmap.AtomicRequest{Op: rdmap.CmpSwap, ID: e.atomicID, STag: uint32(e.RemoteSTag), TO: e.RemoteTO,
		Data: e.Atomic.Data, DataMask: e.Atomic.Mask, Compare: e.Atomic.Compare, CompareMask: e.Atomic.CompareMask}
	switch e.Op {
	case OpFetchAdd:
		a.Op, a.Compare, a.CompareMask = rdmap.FetchAdd, 0, math.MaxUint64
	case OpSwap:
		a.DataMask, a.Compare, a.CompareMask = math.MaxUint64, 0, 0
	}
	return a
}

// immediateSegment adds the one segment of Immediate Data (RFC 7306 §6).
func (t *transmitter) immediateSegment(e *sendEntry) {
	op := rdmap.OpImmediate
	if e.Op == OpImmediateSE {
		op = rdmap.OpImmediateSE
	}
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(op), QN: ddp.QNSend, MSN: t.sendMSN}
	var room [rdmap.ImmediateLen]byte
	t.whole(&h, rdmap.AppendImmediate(room[:0], e.Immediate))
	t.sendMSN++
	e.sent, e.end = true, t.b.end()
	t.cur = message{}
}

// atomicRequest adds the one segment of an Atomic Request. It shares queue, numbers and
// credits of the Read Requests (RFC 7306 §5.2).
func (t *transmitter) atomicRequest(e *sendEntry) {
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpAtomicRequest), QN: ddp.QNRead, MSN: t.readMSN}
	a := e.request()
	var room [rdmap.AtomicRequestLen]byte
	t.whole(&h, a.Append(room[:0]))
	t.readMSN++
	t.requested()
}

// atomicResponse adds the one segment of an Atomic Response.
func (t *transmitter) atomicResponse(r *readResponse) {
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpAtomicResponse), QN: ddp.QNAtomic, MSN: t.atomicMSN}
	a := rdmap.AtomicResponse{ID: r.atomicID, Original: r.original}
	var room [rdmap.AtomicResponseLen]byte
	t.whole(&h, a.Append(room[:0]))
	t.atomicMSN++
	t.responded(r)
}

// whole adds the FPDU of an untagged message that is one segment.
func (t *transmitter) whole(h *ddp.Header, body []byte) {
	if t.markers != nil {
		n := h.Put(t.made.head[:])
		n += copy(t.made.head[n:], body)
		t.marked(t.made.begin(n))
		return
	}
	l := ddp.UntaggedLen + len(body)
	p := t.b.own(mpa.LengthLen + l)
	p[0], p[1] = 0, byte(l)
	h.Put(p[mpa.LengthLen:])
	copy(p[mpa.LengthLen+ddp.UntaggedLen:], body)
	t.trailer(l, crcOf(t.crc, 0, p))
}

// single judges what all these messages have in common: one segment, and nothing else begun.
func single(h *ddp.Header, msn uint32) error {
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

// immediate completes the oldest receive with eight octets that do not go into its buffer.
func (r *receiver) immediate(op rdmap.Opcode, h *ddp.Header, payload []byte) error {
	if r.open {
		return errMixed
	}
	if err := single(h, r.sendMSN); err != nil {
		return err
	}
	wr, ok := r.qp.rq.take()
	if !ok {
		return errNoBuffer
	}
	v, err := rdmap.ParseImmediate(payload)
	if err != nil {
		return err
	}
	r.qp.rq.pop()
	r.sendMSN++
	if !r.qp.recvCQ.push(WC{ID: wr.ID, QP: r.qp, Op: OpRecv, Solicited: op.Solicited(), Immediate: true, Value: v}) {
		return ErrCQOverrun
	}
	return nil
}

// atomicRequest does an atomic operation of the peer's and queues the response.
func (r *receiver) atomicRequest(h *ddp.Header, payload []byte, ulpduLen int) error {
	if err := single(h, r.readMSN); err != nil {
		return err
	}
	sq := &r.qp.sq
	if sq.irqFull() {
		return errNoIRD
	}
	a, err := rdmap.ParseAtomicRequest(payload)
	if err != nil {
		return err
	}
	if a.Op != rdmap.FetchAdd && a.Op != rdmap.CmpSwap {
		return errAtomicOp
	}
	resp := readResponse{atomic: true, atomicID: a.ID, length: uint16(ulpduLen)}
	if resp.original, err = r.qp.perform(&a); err != nil {
		return err
	}
	r.readMSN++
	h.Put(resp.ddp[:])
	sq.pushIRQ(&resp)
	return nil
}

// perform does an atomic operation, alone on this device, and returns what was there before.
func (qp *QP) perform(a *rdmap.AtomicRequest) (original uint64, err error) {
	mr := qp.dev.stags.lookup(STag(a.STag))
	if mr == nil {
		return 0, readFaults[memSTag]
	}
	qp.dev.atomics.Lock() // two regions may be the same memory (RFC 7306 §5.3)
	defer qp.dev.atomics.Unlock()
	mr.mu.Lock()
	defer mr.mu.Unlock()
	off, f := mr.judge(qp, STag(a.STag), a.TO, 8, RemoteAtomic)
	switch {
	case f != memOK:
		return 0, readFaults[f]
	case a.TO%8 != 0:
		return 0, errAtomicAlign
	}
	original = binary.NativeEndian.Uint64(mr.buf[off:])
	binary.NativeEndian.PutUint64(mr.buf[off:], apply(a, original))
	return original, nil
}

// apply is the operation itself (RFC 7306 §5.1).
func apply(a *rdmap.AtomicRequest, v uint64) uint64 {
	if a.Op == rdmap.CmpSwap {
		if (a.Compare^v)&a.CompareMask != 0 {
			return v
		}
		return v&^a.DataMask | a.Data&a.DataMask
	}
	// The top bit of each field is added without its carry: the others cannot carry past it.
	top := a.DataMask
	return (v&^top + a.Data&^top) ^ (v^a.Data)&top
}

// atomicAnswered completes the oldest of our atomic operations.
func (r *receiver) atomicAnswered(h *ddp.Header, payload []byte) error {
	if err := single(h, r.atomicMSN); err != nil {
		return err
	}
	resp, err := rdmap.ParseAtomicResponse(payload)
	if err != nil {
		return err
	}
	e := r.qp.sq.oldestRead()
	switch {
	case e == nil || !e.Op.atomic():
		return errAtomicNone
	case resp.ID != e.atomicID:
		return errAtomicID
	}
	r.atomicMSN++
	r.qp.sq.mu.Lock()
	e.value = resp.Original
	r.qp.sq.mu.Unlock()
	return r.qp.readDone(e)
}
