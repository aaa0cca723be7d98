// The RC responder: it takes requests in order, each once, and reports errors by NAKs.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// receiveRequest takes a request. A request ahead of the expected PSN may have overtaken others, so
// receiveRequest buffers it if there is room. After more such requests, or some time, a NAK
// (sequence error) reports the gap; checkGap repeats the NAK if the gap stays. A request before the
// expected PSN is a duplicate and gets its answer again (IBA 9.7.5.1).
func (qp *QP) receiveRequest(now Instant, p *Packet) Drop {
	in, r := &qp.in, &qp.res
	if d := distance(p.PSN, in.epsn); d >= halfCircle {
		return qp.duplicate(p)
	} else if d > 0 {
		r.gap.outOfOrder(now, p.PSN, in.epsn, r.nakSent)
		drop := DropPSN
		if r.reorder.add(p, d) {
			drop = Accepted
		}
		if !r.nakSent && r.gap.received >= nakAfter {
			qp.sendGapNAK(now)
		}
		return drop
	}
	r.nakSent = false
	d := qp.takeNext(p)
	if d != Accepted {
		return d
	}
	qp.takeBuffered()
	if r.nakSent || r.fault != nil { // caused by a buffered request
		return Accepted
	}
	if r.gap.filled(now, in.epsn, r.reorder.n); !r.gap.open {
		r.reorder.clear()
	} else if r.gap.received >= nakAfter {
		qp.sendGapNAK(now)
	}
	return Accepted
}

// sendGapNAK sends a NAK for the gap.
func (qp *QP) sendGapNAK(now Instant) {
	qp.res.nakSent = true
	qp.count.Gaps++
	qp.res.gap.nextNAK = now + nakRepeat
	qp.res.push(answer{op: packet.OpAck, psn: qp.in.epsn, syndrome: packet.NAK(packet.NAKSequence)})
}

// fault queues a NAK after which the QP ends: see nextAnswer.
func (qp *QP) fault(code packet.NAKCode, d Drop) {
	qp.res.fault = &Fault{code, d}
	qp.res.push(answer{op: packet.OpAck, psn: qp.in.epsn, syndrome: packet.NAK(code)})
}

// request executes the packet with the expected PSN.
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
		// Invalidate before the completion: the program must not reuse the memory while the peer
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

// taken advances to the next request, psns PSNs later.
func (qp *QP) taken(p *Packet, psns uint32) {
	qp.in.epsn = (p.PSN + psns) & maxPSN
	if p.Opcode.Ends() {
		qp.res.msn = nextPSN(qp.res.msn)
	}
	// More than half a circle back, res.last would seem ahead. The PSNs between belong to Reads
	// and atomics, and all may still be in flight: a 2 GiB Read with a 256-byte MTU has half of
	// all PSNs.
	if distance(p.PSN, qp.res.last)+psns > halfCircle {
		qp.res.lastValid = false
	}
}

// acknowledge queues an acknowledge of all taken Sends and Writes, with the last one's PSN. Later
// Reads and atomics are answered only by their data (IBA 9.7.5.1), which can still be lost: Linux
// rxe takes an acknowledge with a Read's last PSN as the Read's end, even if data is missing.
// acknowledge reports whether it queued an acknowledge. After Reads and atomics spanning half of
// all PSNs, the peer awaits no acknowledge for a Send or Write, and an acknowledge with a Read's
// PSN would make the peer request the data again. So none is queued then.
func (qp *QP) acknowledge() bool {
	if qp.res.lastValid {
		qp.res.push(answer{op: packet.OpAck, psn: qp.res.last, syndrome: packet.ACK(packet.CreditUnlimited)})
	}
	return qp.res.lastValid
}

// readRequest queues the answer to a Read; the data is read from memory when sent.
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

// atomicRequest executes an atomic operation once, and remembers the original value in case the
// answer is lost.
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

// duplicate answers an executed request again: a Send or Write with an acknowledge, a Read with
// current data, an atomic with its original result. duplicate drops an unknown Read or atomic, and
// a request with its answer in flight.
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
