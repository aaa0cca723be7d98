// RC: long packets that are lost where short ones are not, on a way that takes less than the path MTU and says so to nobody (RFC 8899).

package core

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A TooLong ends a QP whose long packets do not get through: its path MTU is for its life, as the peer knows it, and a new connection has another.
type TooLong struct {
	Bytes int // of payload, which the packet has that is lost each time
}

func (e *TooLong) Error() string {
	return fmt.Sprintf("roce: packets with %d bytes of data are lost on the way to the peer or back, and short ones are not", e.Bytes)
}

// Unwrap is the error of the verbs.
func (e *TooLong) Unwrap() error { return rnic.ErrConnLost }

// sizing finds out whether size is why an answer is overdue. From shortAfter overdue answers in a row on, each has a short packet sent: a Send without data
// that has the PSN before the oldest one, and so is a duplicate, which the peer acknowledges once more and does nothing else with
// (IBA 9.7.5.1). When shortEnough of these were acknowledged and the oldest packet was not, the way is too narrow for it.
type sizing struct {
	short  shortPacket
	shorts uint8 // short packets that were acknowledged
}

// A shortPacket is where the short packet is.
type shortPacket uint8

const (
	shortNone shortPacket = iota
	shortDue              // to be sent next
	shortSent             // its acknowledge has not come
)

// By then the oldest packet has been lost five times, in two seconds with the time-out of both ends of this provider.
const (
	shortAfter  = 3
	shortEnough = 2
)

// tooLong ends the QP if the oldest packet, or the data that answers it, is lost for its length, and reports whether it does.
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

// askShort has a short packet sent, if answers have been overdue for long enough.
func (r *requesting) askShort() {
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

// shortPassed takes an acknowledge of nothing that is on the wire.
func (r *requesting) shortPassed(p *Packet) {
	if r.short == shortSent && p.Opcode.Operation() == packet.OpAck && p.AETH.Syndrome.Kind() == packet.KindACK {
		r.short = shortNone
		r.shorts++
	}
}
