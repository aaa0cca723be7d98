// Answers of the peer to what an RC QP has asked for: acknowledges, refusals, and the data of
// Reads.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// receiveResponse takes an answer. One whose PSN is of nothing on the wire is a ghost, of a packet
// that was sent again, and is dropped (IBA 9.7.5).
func (qp *QP) receiveResponse(now Instant, p *Packet) Drop {
	r := &qp.req
	credited := qp.credits(p)
	if distance(p.PSN, r.una) >= distance(r.high, r.una) {
		r.shortPassed(p)
		if credited {
			return Accepted // it tells of receives, and of nothing that was sent
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
		qp.notReady(now, p)
	case packet.KindNAK:
		qp.refused(now, p)
	default:
		return DropReserved
	}
	return Accepted
}

// acknowledged notes that the peer has everything before PSN to, and completes what ends there.
// Data of a Read or of an atomic is not acknowledged without coming: missing reports that some
// before to did not, and is lost.
func (qp *QP) acknowledged(now Instant, to uint32) (missing bool) {
	r := &qp.req
	from := r.una
	una, target := from, distance(to, from)
	for i, end := qp.sq.Begun(); i != end; i++ {
		e := qp.sq.At(i)
		if e.Done {
			continue
		}
		if awaited(e.Op) {
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
		r.message = e.P.last
		una = nextPSN(e.P.last)
	}
	qp.progress(now, una&maxPSN, true)
	qp.retire()
	return missing
}

// progress moves una on, if it has: the peer is alive, and the window opens; fast, if what got
// through is packets of ours.
func (qp *QP) progress(now Instant, una uint32, fast bool) {
	r := &qp.req
	n := distance(una, r.una)
	if n == 0 {
		return
	}
	behind := distance(r.next, r.una) < n // what is to be sent again has come after all
	r.una = una
	// Further back it would be one that is to come, and with half of all PSNs on their way after it
	// the circle would be full.
	if distance(una, r.message) >= halfCircle {
		r.message = (una - halfCircle + 1) & maxPSN
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

// gap has work sent again because what came tells that something before it is lost: once for each
// place, for the packets that are on their way tell the same.
func (qp *QP) gap(now Instant) {
	r := &qp.req
	if r.backed == r.una {
		return
	}
	r.backed = r.una
	qp.again(now)
}

// oldest is the oldest work request that is not done.
func (qp *QP) oldest() *entry {
	for i, end := qp.sq.Begun(); i != end; i++ {
		if e := qp.sq.At(i); !e.Done {
			return e
		}
	}
	return nil
}

// expects returns the Read or atomic whose data p is: everything before it is acknowledged with it,
// and data of older Reads that did not come is asked for again.
func (qp *QP) expects(now Instant, p *Packet) (*entry, Drop) {
	if qp.acknowledged(now, p.PSN) {
		qp.gap(now)
		return nil, DropPSN
	}
	e := qp.oldest()
	switch {
	case qp.state == ERR || e == nil || !awaited(e.Op) || e.P.got != p.PSN:
		return nil, DropSequence
	case e.Op.IsAtomic() != (p.Opcode.Operation() == packet.OpAtomicAck):
		return nil, DropSequence
	}
	return e, Accepted
}

// readResponse places a piece of a Read.
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

// atomicAck completes an atomic operation with what was there before.
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

// notReady waits as long as the peer asks for, and sends again from the packet that found no
// receive.
func (qp *QP) notReady(now Instant, p *Packet) {
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
	r.unasked, r.timing, r.probe = 0, false, 0
	qp.seek(r.una)
}

// refused: a missing PSN has work sent again; anything else ends the QP, and the work request that
// was refused completes with an error.
func (qp *QP) refused(now Instant, p *Packet) {
	missing := qp.acknowledged(now, p.PSN)
	if qp.state == ERR {
		return
	}
	code := p.AETH.Syndrome.NAKCode()
	if code == packet.NAKSequence || missing {
		if r := &qp.req; r.backed == r.una {
			qp.lost() // told again: the peer is there, and no closer to being given up
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

// failed ends the QP because of one work request.
func (qp *QP) failed(e *entry, status rnic.Status, cause error) {
	e.Done, e.Status = true, status
	qp.becomeERR(cause)
}
