// The peer's answers to an RC requester: acknowledges, NAKs, and Read data.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// receiveResponse takes an answer. It drops a ghost: an answer to a retransmitted packet, with a
// PSN outside the outstanding range (IBA 9.7.5).
func (qp *QP) receiveResponse(now Instant, p *Packet) Drop {
	r := &qp.req
	credited := qp.updateCredits(p)
	if distance(p.PSN, r.una) >= distance(r.high, r.una) {
		r.shortPassed(p)
		if credited {
			return Accepted // the answer reports receives only, and acknowledges nothing
		}
		return DropPSN
	}
	if len(p.Payload) > 0 && p.Opcode.Operation() != packet.OpReadResponse {
		return DropLength
	}
	switch p.Opcode.Operation() {
	case packet.OpReadResponse:
		return qp.readResponse(now, p)
	case packet.OpAtomicAck:
		return qp.atomicAck(now, p)
	}
	switch p.AETH.Syndrome.Kind() {
	case packet.KindACK:
		if qp.acknowledged(now, nextPSN(p.PSN)) {
			qp.gap(now)
		}
	case packet.KindRNR:
		qp.handleRNR(now, p)
	case packet.KindNAK:
		qp.handleNAK(now, p)
	default:
		return DropReserved
	}
	return Accepted
}

// acknowledged notes that the peer has all packets before PSN to, and completes the work that
// ends there. Reads and atomics are acknowledged only by their data: missing reports that some
// data before to was lost.
func (qp *QP) acknowledged(now Instant, to uint32) (missing bool) {
	r := &qp.req
	from := r.una
	una, target := from, distance(to, from)
	for i, end := qp.sq.Begun(); i != end; i++ {
		e := qp.sq.At(i)
		if e.Done {
			continue
		}
		if returnsData(e.Op) {
			una, missing = e.P.got, distance(e.P.got, from) < target
			if distance(una, from) > target {
				una = from + target&maxPSN
			}
			break
		}
		after := distance(nextPSN(e.P.last), from)
		if after > target || after == 0 {
			una = to
			break
		}
		e.Done = true
		r.lastMessage = e.P.last
		una = nextPSN(e.P.last)
	}
	qp.progress(now, una&maxPSN, true)
	qp.retire()
	return missing
}

// progress advances una to a higher value: the peer is alive, and the window grows; quickly if
// fast, which means that this side's packets got through.
func (qp *QP) progress(now Instant, una uint32, fast bool) {
	r := &qp.req
	n := distance(una, r.una)
	if n == 0 {
		return
	}
	// Packets scheduled for retransmission have arrived after all.
	behind := distance(r.next, r.una) < n
	r.una = una
	// A message further back would count as ahead. With half of all PSNs outstanding after una the
	// circle would be full.
	if distance(una, r.lastMessage) >= halfCircle {
		r.lastMessage = (una - halfCircle + 1) & maxPSN
	}
	qp.res.gap.answered()
	r.sample(now)
	r.passed()
	qp.moved.Add(uint64(n) * uint64(qp.attrs.PathMTU))
	r.retries, r.rnrs, r.backed, r.sizing = 0, 0, (una-1)&maxPSN, sizing{}
	if behind {
		qp.seek(una)
	}
	qp.probed(behind)
	r.grow(n, fast)
	if r.deadline, r.probe = 0, 0; r.una != r.high {
		r.deadline = qp.overdue(now)
		r.armProbe(now)
	}
}

// gap retransmits because an answer revealed an earlier loss. gap retransmits once for each value
// of una, because more answers on their way report the same loss.
func (qp *QP) gap(now Instant) {
	r := &qp.req
	if r.backed == r.una {
		return
	}
	r.backed = r.una
	qp.retransmit(now)
}

// oldest returns the oldest incomplete work request, or nil.
func (qp *QP) oldest() *entry {
	for i, end := qp.sq.Begun(); i != end; i++ {
		if e := qp.sq.At(i); !e.Done {
			return e
		}
	}
	return nil
}

// expects returns the Read or atomic that p's data belongs to. The data also acknowledges all
// packets before it. If data of an older Read is missing, expects requests the older data again.
func (qp *QP) expects(now Instant, p *Packet) (*entry, Drop) {
	if qp.acknowledged(now, p.PSN) {
		qp.gap(now)
		return nil, DropPSN
	}
	e := qp.oldest()
	switch {
	case qp.state == ERR || e == nil || !returnsData(e.Op) || e.P.got != p.PSN:
		return nil, DropSequence
	case e.Op.IsAtomic() != (p.Opcode.Operation() == packet.OpAtomicAck):
		return nil, DropSequence
	}
	return e, Accepted
}

// readResponse places one packet of a Read's data.
func (qp *QP) readResponse(now Instant, p *Packet) Drop {
	e, d := qp.expects(now, p)
	if d != Accepted {
		return d
	}
	mtu := qp.attrs.PathMTU
	at := int(distance(p.PSN, e.P.first)) * mtu
	want := min(int(e.Bytes)-at, mtu)
	if len(p.Payload) != want || misplacedEnd(e, p) {
		qp.failed(e, rnic.WCRemErr, ErrResponse)
		return DropLength
	}
	if want > 0 {
		dst, fault := qp.q.Borrow(e.MR, e.P.sink, e.MR.Base()+e.Offset+uint64(at), want, rnic.LocalWrite)
		if fault != rnic.MemOK {
			qp.failed(e, rnic.WCLocErr, ErrSink)
			return DropAccess
		}
		copy(dst, p.Payload)
		qp.q.Return(e.MR)
	}
	e.P.got = nextPSN(p.PSN)
	if p.PSN == e.P.last {
		if e.Op == rnic.OpReadInvalidate {
			e.MR.Invalidate()
		}
		qp.req.reads--
		e.Done = true
	}
	qp.progress(now, e.P.got, false)
	qp.retire()
	return Accepted
}

// atomicAck completes an atomic operation with the original value.
func (qp *QP) atomicAck(now Instant, p *Packet) Drop {
	e, d := qp.expects(now, p)
	if d != Accepted {
		return d
	}
	e.Value, e.Done = p.Original, true
	e.P.got = nextPSN(p.PSN)
	qp.req.reads--
	qp.progress(now, e.P.got, false)
	qp.retire()
	return Accepted
}

// handleRNR pauses for the time in the peer's RNR NAK, then retransmits from the packet that found
// no receive.
func (qp *QP) handleRNR(now Instant, p *Packet) {
	r := &qp.req
	if qp.acknowledged(now, p.PSN) {
		qp.gap(now)
		return
	}
	if qp.state == ERR {
		return
	}
	if r.rnrs >= qp.attrs.RNRRetry && qp.attrs.RNRRetry != maxRetry {
		qp.becomeERR(ErrRNR)
		return
	}
	r.rnrs = min(r.rnrs+1, maxRetry)
	r.rnrUntil = now + Instant(p.AETH.Syndrome.Wait())
	if r.deadline = 0; qp.attrs.Timeout != 0 {
		r.deadline = qp.overdue(r.rnrUntil)
	}
	r.sinceAckReq, r.timing, r.probe = 0, false, 0
	qp.seek(r.una)
}

// handleNAK handles a NAK. A sequence error retransmits; any other code ends the QP, and the
// refused work request completes with an error.
func (qp *QP) handleNAK(now Instant, p *Packet) {
	missing := qp.acknowledged(now, p.PSN)
	if qp.state == ERR {
		return
	}
	code := p.AETH.Syndrome.NAKCode()
	if code == packet.NAKSequence || missing {
		if r := &qp.req; r.backed == r.una {
			qp.rewind() // a repeated NAK: the peer is alive, so do not count a retry
			return
		}
		qp.gap(now)
		return
	}
	e := qp.oldest()
	refusal := &Refusal{Code: code, STag: e.RemoteSTag}
	if invalidates(e.Op) {
		refusal.STag = e.Invalidate
	}
	qp.failed(e, rnic.WCRemErr, refusal)
}

// failed completes a work request with status and ends the QP.
func (qp *QP) failed(e *entry, status rnic.Status, cause error) {
	e.Done, e.Status = true, status
	qp.becomeERR(cause)
}
