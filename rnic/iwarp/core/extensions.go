// The messages of RFC 7306, in both directions: Immediate Data and atomic operations.

package core

import (
	"math"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// operands returns an atomic operation in wire form. A plain swap becomes a compare and swap that
// compares no bit and swaps all bits: the RFC gives it no separate code.
func operands(e *entry) rdmap.AtomicRequest {
	a := rdmap.AtomicRequest{Op: rdmap.CmpSwap, ID: e.P.atomicID, STag: uint32(e.RemoteSTag), TO: e.RemoteTO,
		Data: e.Atomic.Data, DataMask: e.Atomic.Mask, Compare: e.Atomic.Compare, CompareMask: e.Atomic.CompareMask}
	switch e.Op {
	case rnic.OpFetchAdd:
		a.Op, a.Compare, a.CompareMask = rdmap.FetchAdd, 0, math.MaxUint64
	case rnic.OpSwap:
		a.DataMask, a.Compare, a.CompareMask = math.MaxUint64, 0, 0
	}
	return a
}

// immediateSegment adds the one segment of Immediate Data (RFC 7306 §6).
func (o *Outbound) immediateSegment(e *entry) {
	op := rdmap.OpImmediate
	if e.Op == rnic.OpImmediateSE {
		op = rdmap.OpImmediateSE
	}
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(op), QN: ddp.QNSend, MSN: o.sendMSN}
	var room [rdmap.ImmediateLen]byte
	o.whole(&h, rdmap.AppendImmediate(room[:0], e.Immediate))
	o.sendMSN++
	e.P.sent, e.P.end = true, o.b.end()
	o.cur = message{}
}

// atomicRequest adds the one segment of an Atomic Request. It shares the queue, numbers and credits
// of Read Requests (RFC 7306 §5.2).
func (o *Outbound) atomicRequest(e *entry) {
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpAtomicRequest), QN: ddp.QNRead, MSN: o.readMSN}
	a := operands(e)
	var room [rdmap.AtomicRequestLen]byte
	o.whole(&h, a.Append(room[:0]))
	o.readMSN++
	o.cur = message{}
}

// atomicResponse adds the one segment of an Atomic Response.
func (o *Outbound) atomicResponse(r *peerRequest) {
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpAtomicResponse), QN: ddp.QNAtomic, MSN: o.atomicMSN}
	a := rdmap.AtomicResponse{ID: r.atomicID, Original: r.original}
	var room [rdmap.AtomicResponseLen]byte
	o.whole(&h, a.Append(room[:0]))
	o.atomicMSN++
	o.responded(r)
}

// apply executes an atomic operation on v (RFC 7306 §5.1).
func apply(a *rdmap.AtomicRequest, v uint64) uint64 {
	if a.Op == rdmap.CmpSwap {
		if (a.Compare^v)&a.CompareMask != 0 {
			return v
		}
		return v&^a.DataMask | a.Data&a.DataMask
	}
	// Each field's top bit is added without its carry: the other bits cannot carry past it.
	top := a.DataMask
	return (v&^top + a.Data&^top) ^ (v^a.Data)&top
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

// checkImmediate checks Immediate Data: eight bytes that complete a receive and bypass its buffer
// (RFC 7306 §6).
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
