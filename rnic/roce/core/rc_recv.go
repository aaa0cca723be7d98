// The responder of RC: requests are taken in order, each once; what is wrong is told by a NAK.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// receiveRequest takes a request. What is ahead of the expected PSN may have overtaken that, and
// some of it is kept. The peer is told of the gap (NAK, sequence error) when more has come, or some
// time has gone by, once unless it is not filled (tellGap). What is before the expected PSN came
// already, and is answered again (IBA 9.7.5.1).
func (qp *QP) receiveRequest(now Instant, p *Packet) Drop {
	in, r := &qp.in, &qp.res
	if d := distance(p.PSN, in.epsn); d >= halfCircle {
		return qp.duplicate(p)
	} else if d > 0 {
		r.gap.missed(now, p.PSN, in.epsn, r.told)
		drop := DropPSN
		if r.early.keep(p, d) {
			drop = Accepted
		}
		if !r.told && r.gap.came >= tellAfter {
			qp.tell(now)
		}
		return drop
	}
	r.told = false
	d := qp.inTurn(p)
	if d != Accepted {
		return d
	}
	qp.follow()
	if r.told || r.fault != nil { // by what was kept
		return Accepted
	}
	if r.gap.filled(now, in.epsn, r.early.n); !r.gap.open {
		r.early.clear()
	} else if r.gap.came >= tellAfter {
		qp.tell(now)
	}
	return Accepted
}

// tell tells the peer what is missing.
func (qp *QP) tell(now Instant) {
	qp.res.told = true
	qp.count.Gaps++
	qp.res.gap.again = now + firstTell
	qp.res.push(answer{op: packet.OpAck, psn: qp.in.epsn, syndrome: packet.NAK(packet.NAKSequence)})
}

// fault answers with a NAK after which the QP ends: see nextAnswer.
func (qp *QP) fault(code packet.NAKCode, d Drop) {
	qp.res.fault = &Fault{code, d}
	qp.res.push(answer{op: packet.OpAck, psn: qp.in.epsn, syndrome: packet.NAK(code)})
}

// request does what the packet in turn asks for.
func (qp *QP) request(p *Packet) Drop {
	in := &qp.in
	start := !p.Reserved && p.Opcode.Starts()
	op := p.Opcode.Operation()
	switch {
	case p.Reserved:
		return DropReserved
	case in.open == start, in.open && in.write != (op == packet.OpWrite):
		return DropSequence
	}
	switch op {
	case packet.OpReadRequest:
		return qp.readRequest(p)
	case packet.OpCmpSwap, packet.OpFetchAdd:
		return qp.atomicRequest(p)
	case packet.OpSend, packet.OpWrite:
	default:
		return DropReserved
	}
	if d := qp.checkUC(p); d != Accepted {
		return d
	}
	if p.Opcode.Carries(packet.ExtIETH) {
		// Before the completion: the program must not take the memory for its own while the peer
		// can write there.
		if qp.q.RemoteInvalidate(rnic.STag(p.Invalidate)) != rnic.MemOK {
			return DropAccess
		}
	}
	if d := qp.doUC(p); d != Accepted {
		return d
	}
	qp.taken(p, 1)
	qp.res.last, qp.res.lastValid = p.PSN, true
	if p.AckReq {
		qp.acknowledge()
	}
	return Accepted
}

// taken moves on to the next request.
func (qp *QP) taken(p *Packet, psns uint32) {
	qp.in.epsn = (p.PSN + psns) & maxPSN
	if p.Opcode.Ends() {
		qp.res.msn = nextPSN(qp.res.msn)
	}
	// More than half a circle back it would be one that is to come. The PSNs in between are of
	// Reads and atomics, and all of them can be on their way still: a Read of 2 GiB with an MTU of
	// 256 has half of all PSNs.
	if distance(p.PSN, qp.res.last)+psns > halfCircle {
		qp.res.lastValid = false
	}
}

// acknowledge answers for all Sends and Writes that were taken, up to the last one. What was taken
// after that is Reads and atomics, and answered by its data alone (IBA 9.7.5.1): that can still be
// lost, and Linux rxe takes an acknowledge with the last PSN of a Read for its end, whatever is
// missing of it. It reports whether there is anything to acknowledge: after Reads and atomics of
// half of all PSNs the peer waits for no acknowledge of a Send or Write, and one with a PSN of
// theirs would have it ask for their data again.
func (qp *QP) acknowledge() bool {
	if qp.res.lastValid {
		qp.res.push(answer{op: packet.OpAck, psn: qp.res.last, syndrome: packet.ACK(packet.CreditUnlimited)})
	}
	return qp.res.lastValid
}

// readRequest queues the answer to a Read; its data is taken from memory when it is sent.
func (qp *QP) readRequest(p *Packet) Drop {
	if d := qp.checkRead(p); d != Accepted {
		return d
	}
	if qp.res.reads >= qp.attrs.MaxDestReads {
		return DropSequence
	}
	n := packets(p.RETH.Length, qp.attrs.PathMTU)
	qp.taken(p, n)
	qp.res.push(qp.readAnswer(p, n))
	return Accepted
}

func (qp *QP) checkRead(p *Packet) Drop {
	switch {
	case qp.attrs.Access&rnic.RemoteRead == 0:
		return DropUnsupported
	case len(p.Payload) > 0, p.RETH.Length > MaxMessage:
		return DropLength
	}
	key, n := rnic.STag(p.RETH.RKey), int(p.RETH.Length)
	if n > 0 && qp.q.Check(qp.q.Find(nil, key), key, p.RETH.VA, n, rnic.RemoteRead) != rnic.MemOK {
		return DropAccess
	}
	return Accepted
}

func (qp *QP) readAnswer(p *Packet, n uint32) answer {
	return answer{op: packet.OpReadResponse, psn: p.PSN, begin: p.PSN, last: (p.PSN + n - 1) & maxPSN, first: true,
		va: p.RETH.VA, rkey: rnic.STag(p.RETH.RKey), left: p.RETH.Length}
}

// atomicRequest does an atomic operation, once, and remembers what was there in case the answer is
// lost.
func (qp *QP) atomicRequest(p *Packet) Drop {
	a := &p.Atomic
	switch {
	case qp.attrs.Access&rnic.RemoteAtomic == 0:
		return DropUnsupported
	case len(p.Payload) > 0:
		return DropLength
	case qp.res.reads >= qp.attrs.MaxDestReads:
		return DropSequence
	}
	add := p.Opcode.Operation() == packet.OpFetchAdd
	before, fault := qp.q.Atomic(rnic.STag(a.RKey), a.VA, func(v uint64) uint64 {
		switch {
		case add:
			return v + a.SwapAdd
		case v == a.Compare:
			return a.SwapAdd
		}
		return v
	})
	switch fault {
	case rnic.MemOK:
	case rnic.MemAlign:
		return DropLength
	default:
		return DropAccess
	}
	qp.res.remember(p.PSN, before)
	qp.taken(p, 1)
	qp.res.push(answer{op: packet.OpAtomicAck, psn: p.PSN, begin: p.PSN, last: p.PSN, original: before})
	return Accepted
}

// duplicate answers a request that was done before: a Send or a Write with an acknowledge, a Read
// with the data as it is now, an atomic operation with what it found then. A Read or an atomic that
// is not known, or whose answer is on its way, is dropped.
func (qp *QP) duplicate(p *Packet) Drop {
	if p.Reserved {
		return DropReserved
	}
	switch p.Opcode.Operation() {
	case packet.OpSend, packet.OpWrite:
		qp.acknowledge()
	case packet.OpReadRequest:
		n := packets(p.RETH.Length, qp.attrs.PathMTU)
		if qp.checkRead(p) != Accepted || n > distance(qp.in.epsn, p.PSN) {
			return DropAccess
		}
		qp.res.replay(qp.readAnswer(p, n), qp.attrs.MaxDestReads)
	case packet.OpCmpSwap, packet.OpFetchAdd:
		if before, ok := qp.res.remembered(p.PSN); ok {
			qp.res.replay(answer{op: packet.OpAtomicAck, psn: p.PSN, begin: p.PSN, last: p.PSN, original: before}, qp.attrs.MaxDestReads)
		}
	}
	return DropPSN
}
