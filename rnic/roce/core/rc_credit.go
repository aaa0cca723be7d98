// End-to-end flow control of RC (IBA 9.7.7.2): a responder tells with its acknowledges how many
// receives it has, and a requester sends no more messages that need one than that.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A limit is the requester's side. Messages have numbers from 1 on, the SSN, and the responder
// counts those that it has completed, the MSN. MSN and credits of an acknowledge are the LSN:
// messages up to that one find a receive. It never goes back: credits are told in coarse steps,
// rounded down, and receives that were posted are not taken back.
//
// A message without credit may go if it is the first one, SSN = LSN + 1: acknowledges that tell of
// new receives can be lost, and it brings another.
type limit struct {
	obeyed   bool // the peer tells its credits; false from its first acknowledge without any on
	ssn, lsn uint32
	tries    bool   // the last message that needs a receive has gone without credit,
	tried    uint32 // and begins with this PSN
}

// needsReceive reports whether a work request takes a receive of the peer's.
func needsReceive(op rnic.Opcode) bool {
	switch op {
	case rnic.OpWrite, rnic.OpRead, rnic.OpReadInvalidate, rnic.OpFetchAdd, rnic.OpCmpSwap, rnic.OpLocalInvalidate:
		return false
	}
	return true
}

// admits reports whether the next message may begin that needs a receive. settled: all that was
// sent is acknowledged, so the peer has counted it, whatever its acknowledges say: one that counts
// otherwise holds up nothing for good.
func (l *limit) admits(settled bool) bool {
	if !l.obeyed {
		return true
	}
	if settled {
		l.raise(l.ssn)
	}
	beyond := distance(nextPSN(l.ssn), l.lsn)
	return beyond <= 1 || beyond >= halfCircle
}

// begin numbers a message. One that needs no receive is counted by the peer and takes none of its
// credits.
func (l *limit) begin(psn uint32, needs bool) {
	l.ssn = nextPSN(l.ssn)
	switch {
	case !l.obeyed:
	case needs:
		l.tries, l.tried = l.ssn == nextPSN(l.lsn), psn
	default:
		l.lsn = nextPSN(l.lsn)
	}
}

// raise moves the LSN on, and reports whether it has.
func (l *limit) raise(lsn uint32) bool {
	if d := distance(lsn, l.lsn); d == 0 || d >= halfCircle {
		return false
	}
	l.lsn, l.tries = lsn, false
	return true
}

// credited takes the credits of an acknowledge, and reports whether they tell anything new. A peer
// that tells none has no limit.
func (l *limit) credited(a packet.AETH) bool {
	if !l.obeyed || a.Syndrome.Kind() != packet.KindACK {
		return false
	}
	n, limited := a.Syndrome.Credits()
	if !limited {
		*l = limit{ssn: l.ssn}
		return true
	}
	return l.raise((a.MSN + uint32(n)) & maxPSN)
}

// lone reports whether e is the message without credit, and a Send: one packet of it goes, and the
// others when that has found a receive. A Write with immediate data needs it for its last packet
// only, so all of it goes.
func (l *limit) lone(e *entry) bool {
	return l.tries && e.P.first == l.tried && e.Op != rnic.OpWriteImmediate && e.Op != rnic.OpWriteSEImmediate
}

// credits takes those of a packet of the peer's that is no older than the last Send or Write that
// is done: one that tells of new receives alone has its PSN, also where Reads came after it
// (QP.acknowledge).
func (qp *QP) credits(p *Packet) bool {
	r := &qp.req
	return p.Opcode.Carries(packet.ExtAETH) && distance(p.PSN, r.message) < distance(r.high, r.message) && r.limit.credited(p.AETH)
}

// aeth is the AETH of an answer that leaves now. Credits are those of the moment, as is the MSN: a
// receive that a message is being put into counts, for the message does not yet.
func (qp *QP) aeth(s packet.Syndrome) packet.AETH {
	if qp.attrs.GiveCredits && s.Kind() == packet.KindACK {
		n := qp.q.Receives()
		s = packet.ACK(packet.CreditCode(n))
		qp.res.empty = n == 0
	}
	return packet.AETH{Syndrome: s, MSN: qp.res.msn}
}

// ReceivesPosted is told when receives have been posted where there were none, and reports whether
// there is an acknowledge to be sent for it: the peer, which has been told that there are none,
// waits (IBA 9.7.7.2, unsolicited acknowledge). Where no PSN is left for it the next answer tells,
// and the peer's next message goes without credit.
func (qp *QP) ReceivesPosted() bool {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if !qp.res.empty || !qp.state.receives() || qp.res.fault != nil {
		return false
	}
	return qp.acknowledge()
}
