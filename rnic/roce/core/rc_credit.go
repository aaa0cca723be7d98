// RC's end-to-end flow control (IBA 9.7.7.2): a responder's acknowledges report its receives, and
// a requester sends no more messages that need one.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A creditLimit is the requester's flow-control state. Messages are numbered from 1, the SSN; the
// responder counts completed messages, the MSN. An acknowledge's MSN plus its credits give the
// LSN: messages up to that number find a receive. The LSN never decreases: credit codes are
// coarse and rounded down, and posted receives cannot be withdrawn.
//
// The message with SSN = LSN + 1 may go without credit: an acknowledge that reports new receives
// can be lost, and this message triggers another acknowledge.
type creditLimit struct {
	obeyed       bool // acknowledges carry credits; false after one without credits
	ssn, lsn     uint32
	overdraft    bool   // the last message that needs a receive went without credit
	overdraftPSN uint32 // first PSN of that message
}

// needsReceive reports whether a work request consumes a receive at the peer.
func needsReceive(op rnic.Opcode) bool {
	switch op {
	case rnic.OpWrite, rnic.OpRead, rnic.OpReadInvalidate, rnic.OpFetchAdd, rnic.OpCmpSwap, rnic.OpLocalInvalidate:
		return false
	}
	return true
}

// admits reports whether the next message that needs a receive may begin. settled means that all
// sent packets are acknowledged. Then the message may begin whatever the MSN, so a peer that counts
// messages differently cannot block the QP forever.
func (l *creditLimit) admits(settled bool) bool {
	if !l.obeyed {
		return true
	}
	if settled {
		l.raise(l.ssn)
	}
	beyond := distance(nextPSN(l.ssn), l.lsn)
	return beyond <= 1 || beyond >= halfCircle
}

// begin numbers a message. The peer counts a message that needs no receive without charging
// credits.
func (l *creditLimit) begin(psn uint32, needs bool) {
	l.ssn = nextPSN(l.ssn)
	switch {
	case !l.obeyed:
	case needs:
		l.overdraft, l.overdraftPSN = l.ssn == nextPSN(l.lsn), psn
	default:
		l.lsn = nextPSN(l.lsn)
	}
}

// raise increases the LSN to lsn, and reports whether the LSN has changed.
func (l *creditLimit) raise(lsn uint32) bool {
	if d := distance(lsn, l.lsn); d == 0 || d >= halfCircle {
		return false
	}
	l.lsn, l.overdraft = lsn, false
	return true
}

// update takes an acknowledge's credits, and reports whether they are news. An acknowledge
// without credits removes the limit.
func (l *creditLimit) update(a packet.AETH) bool {
	if !l.obeyed || a.Syndrome.Kind() != packet.KindACK {
		return false
	}
	n, limited := a.Syndrome.Credits()
	if !limited {
		*l = creditLimit{ssn: l.ssn}
		return true
	}
	return l.raise((a.MSN + uint32(n)) & maxPSN)
}

// overdrawn reports whether e is a Send sent without credit: such a Send sends one packet, and the
// rest after that packet has found a receive. A Write with immediate data needs the receive only
// for its last packet, so all packets go.
func (l *creditLimit) overdrawn(e *entry) bool {
	return l.overdraft && e.P.first == l.overdraftPSN && e.Op != rnic.OpWriteImmediate && e.Op != rnic.OpWriteSEImmediate
}

// updateCredits takes the credits from a packet no older than the last completed Send or Write. An
// unsolicited acknowledge for new receives has that Send's or Write's PSN, even if Reads came later
// (QP.acknowledge).
func (qp *QP) updateCredits(p *Packet) bool {
	r := &qp.req
	return p.Opcode.Carries(packet.ExtAETH) && distance(p.PSN, r.lastMessage) < distance(r.high, r.lastMessage) && r.credit.update(p.AETH)
}

// aeth builds the AETH for an answer that leaves now. Its credits and MSN are current: a receive
// being filled counts as a credit because its message is not in the MSN yet.
func (qp *QP) aeth(s packet.Syndrome) packet.AETH {
	if qp.attrs.GiveCredits && s.Kind() == packet.KindACK {
		n := qp.q.Receives()
		s = packet.ACK(packet.CreditCode(n))
		qp.res.empty = n == 0
	}
	return packet.AETH{Syndrome: s, MSN: qp.res.msn}
}

// ReceivesPosted reports whether newly posted receives require an unsolicited acknowledge (IBA
// 9.7.7.2). New receives require an acknowledge if the last one reported zero receives, since the
// peer waits. The caller calls it after posting receives to an empty queue. If no PSN is left for
// the acknowledge, the next answer carries the credits, and the peer's next message goes without
// credit.
func (qp *QP) ReceivesPosted() bool {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if !qp.res.empty || !qp.state.receives() || qp.res.fault != nil {
		return false
	}
	return qp.acknowledge()
}
