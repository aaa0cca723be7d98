// RC: detects a path that drops long packets and sends no ICMP message about it (RFC 8899).

package core

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A TooLong ends a QP when its long packets are lost. A connection's path MTU is fixed, because the
// peer uses it too, so only a new connection can use another.
type TooLong struct {
	Bytes int // payload of the packet that is lost each time
}

func (e *TooLong) Error() string {
	return fmt.Sprintf("roce: packets with %d bytes of data are lost on the way to the peer or back, and short ones are not", e.Bytes)
}

// Unwrap returns package rnic's error for a lost connection.
func (e *TooLong) Unwrap() error { return rnic.ErrConnLost }

// sizing finds out whether answers are overdue because of the packets' size. From shortAfter
// overdue answers in a row on, each overdue answer sends a short packet: a Send without data. Its
// PSN is the one before the oldest packet, so that the peer acknowledges it as a duplicate and has
// no other effect (IBA 9.7.5.1). If shortEnough of these are acknowledged and the oldest packet is
// not, the path is too narrow for it.
type sizing struct {
	short  shortPacket
	shorts uint8 // short packets that were acknowledged
}

// A shortPacket is the state of the short packet.
type shortPacket uint8

const (
	shortNone shortPacket = iota
	shortDue              // to be sent next
	shortSent             // the acknowledge of the latest short packet has not come
)

// tooLong ends the QP if the oldest packet, or its answer's data, is lost because of its length. It
// reports whether it has ended the QP.
func (qp *QP) tooLong() bool {
	e := qp.oldest()
	if qp.req.shorts < shortEnough || e == nil {
		return false
	}
	mtu := qp.attrs.PathMTU
	n := min(int(e.Bytes)-int(distance(qp.req.una, e.P.first))*mtu, mtu)
	if n <= minMTU {
		return false
	}
	qp.becomeERR(&TooLong{n})
	return true
}

// scheduleShort makes a short packet due if answers have been overdue often enough.
func (r *requesting) scheduleShort() {
	if r.retries >= shortAfter {
		r.short = shortDue
	}
}

// buildShort builds the short packet.
func (qp *QP) buildShort(b []byte) int {
	qp.req.short, qp.out.again = shortSent, true
	h := packet.Header{BTH: qp.bth(packet.RCSendOnly, (qp.req.una-1)&maxPSN)}
	h.AckReq = true
	return h.Put(b)
}

// shortPassed counts an acknowledge for a short packet: such an acknowledge covers no outstanding
// PSN.
func (r *requesting) shortPassed(p *Packet) {
	if r.short == shortSent && p.Opcode.Operation() == packet.OpAck && p.AETH.Syndrome.Kind() == packet.KindACK {
		r.short = shortNone
		r.shorts++
	}
}
