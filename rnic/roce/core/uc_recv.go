// The UC responder: it assembles messages in order, and discards one that lacks a packet.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

func carriesImm(p *Packet) bool { return p.Opcode.Carries(packet.ExtImmDt) }

// receiveUC takes an admitted packet, in the steps of figure 117. The caller holds mu.
//
//	                   FIRST                              LAST
//	           ┌─────────────────────► in a message ──────────────┐
//	           │                        │   │    ▲ MIDDLE         │
//	ONLY  ┌─ between ◄──────────────────┘   └────┘                │
//	      └───► messages   gap, wrong sequence,                   │
//	               ▲       any error in the packet                │
//	               └──────────────────────────────────────────────┘
//
// Any error loses only the current message: the next FIRST or ONLY begins a new one, even if that
// packet broke the old message (C9-184, C9-186, C9-189 [IBU-067 IBU-073 IBU-085]).
func (qp *QP) receiveUC(p *Packet) Drop {
	in := &qp.in
	start := !p.Reserved && p.Opcode.Starts()
	bad := qp.checkOrder(p, start)
	in.epsn = nextPSN(p.PSN)
	if bad != Accepted {
		qp.abandon()
		if !start {
			return bad
		}
	}
	// The packet is in order: it begins a message or continues the current one.
	if d := qp.checkUC(p); d != Accepted {
		qp.abandon()
		return d
	}
	if d := qp.doUC(p); d != Accepted {
		qp.abandon()
		return d
	}
	return Accepted
}

// checkOrder checks the PSN, then the opcode sequence by rules (1) to (5) of C9-187 [IBU-076].
func (qp *QP) checkOrder(p *Packet, start bool) Drop {
	in := &qp.in
	switch {
	// A lower PSN counts as a gap ahead: there is no duplicate window (C9-183 [IBU-065]).
	case p.PSN != in.epsn:
		qp.count.Gaps++
		return DropPSN
	case p.Reserved:
		return DropReserved
	case in.open == start:
		return DropSequence
	case in.open && in.write != (p.Opcode.Operation() == packet.OpWrite):
		return DropSequence
	}
	return Accepted
}

// abandon discards the current message, and counts the loss.
func (qp *QP) abandon() {
	if qp.in.abandon() {
		qp.count.Lost++
	}
}

// checkUC does all checks before any byte is written: the operation, the receive, lengths, the
// R_Key (steps 4 to 6 of figure 117, IBA 9.8.1 [IBU-023 IBU-024 IBU-025]).
func (qp *QP) checkUC(p *Packet) Drop {
	in := &qp.in
	write := p.Opcode.Operation() == packet.OpWrite
	switch {
	case write && qp.attrs.Access&rnic.RemoteWrite == 0:
		return DropUnsupported
	case (!write || carriesImm(p)) && !in.holdReceive(qp.q): // a plain Write needs no receive
		return DropNoReceive
	case !qp.ucLength(p):
		return DropLength
	case write:
		return qp.checkWrite(p)
	case len(p.Payload) > len(in.wr.Buf)-int(in.at): // C9-194 [IBU-101]
		return DropLength
	}
	return Accepted
}

// ucLength checks the payload length by the packet's position (C9-195 to C9-199).
func (qp *QP) ucLength(p *Packet) bool {
	n, mtu := len(p.Payload), qp.attrs.PathMTU
	switch {
	case !p.Opcode.Ends():
		return n == mtu && p.Pad == 0
	case p.Opcode.Starts():
		return n <= mtu
	}
	return n > 0 && n <= mtu
}

// checkWrite checks a Write's target: on the first packet the whole RETH range, on each packet
// that payload and RETH agree. A Write without data has no meaningful R_Key (C9-193 [IBU-099]).
func (qp *QP) checkWrite(p *Packet) Drop {
	in := &qp.in
	if p.Opcode.Starts() {
		in.va, in.rkey, in.left = p.RETH.VA, rnic.STag(p.RETH.RKey), p.RETH.Length
		in.at = 0
	}
	n := uint32(len(p.Payload))
	switch {
	case in.left > MaxMessage, n > in.left, p.Opcode.Ends() && n != in.left:
		return DropLength
	case p.Opcode.Starts() && in.left > 0:
		in.mr = qp.q.Find(in.mr, in.rkey)
		if qp.q.Check(in.mr, in.rkey, in.va, int(in.left), rnic.RemoteWrite) != rnic.MemOK {
			return DropAccess
		}
	}
	return Accepted
}

// doUC places the payload. The last packet completes the message.
func (qp *QP) doUC(p *Packet) Drop {
	in := &qp.in
	write := p.Opcode.Operation() == packet.OpWrite
	n := uint32(len(p.Payload))
	switch {
	case write && n > 0:
		// The key is checked again with each packet: after Invalidate returns, the memory is the
		// program's.
		dst, fault := qp.q.Borrow(in.mr, in.rkey, in.va, int(n), rnic.RemoteWrite)
		if fault != rnic.MemOK {
			return DropAccess
		}
		copy(dst, p.Payload)
		qp.q.Return(in.mr)
		in.va += uint64(n)
		in.left -= n
	case !write:
		copy(in.wr.Buf[in.at:], p.Payload)
	}
	in.open, in.write = true, write
	in.at += n
	if !p.Opcode.Ends() {
		return Accepted
	}
	total := in.at
	in.abandon()
	switch {
	case !write:
		qp.completeRecv(p, rnic.OpRecv, total, 0)
	case carriesImm(p):
		qp.completeRecv(p, rnic.OpRecvWrite, total, 0)
	}
	return Accepted
}
