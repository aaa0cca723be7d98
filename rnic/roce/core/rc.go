// RC: what both halves share: time, PSNs as distances, and the errors that end a QP.

package core

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// An Instant is a point in time in nanoseconds, on a clock of the owner's that never goes back.
type Instant int64

// distance is how far PSN a is after PSN from, in the circle of 24 bits.
func distance(a, from uint32) uint32 { return (a - from) & maxPSN }

// halfCircle parts what is ahead of a PSN from what is before it (IBA 9.7.2).
const halfCircle = 1 << 23

// packets is how many packets a message of n bytes has.
func packets(n uint32, mtu int) uint32 {
	return max(1, uint32((uint64(n)+uint64(mtu)-1)/uint64(mtu)))
}

// awaited reports whether the peer answers a work request with data: it takes one of the ORD.
func awaited(op rnic.Opcode) bool {
	return op == rnic.OpRead || op == rnic.OpReadInvalidate || op.IsAtomic()
}

// plainAtomic reports an atomic operation on one field of 64 bits: InfiniBand's have no masks.
func plainAtomic(wr *rnic.Posted) bool {
	a := wr.Atomic
	return a != nil && (wr.Op == rnic.OpFetchAdd && a.Mask == 0 || wr.Op == rnic.OpCmpSwap && a.Mask == 1<<64-1 && a.CompareMask == 1<<64-1)
}

// Errors that end an RC QP.
var (
	ErrRetry    = fmt.Errorf("%w: the peer does not answer", rnic.ErrConnLost)
	ErrRefused  = fmt.Errorf("%w: nobody has the UDP port of RoCE at the peer's address any more", rnic.ErrConnLost)
	ErrRNR      = fmt.Errorf("%w: the peer has no receive posted, for too long", rnic.ErrConnLost)
	ErrResponse = errors.New("roce: the peer's answer does not suit what it was asked for")
	ErrSink     = errors.New("roce: the sink of an RDMA Read is not valid any more")
)

// A Refusal is a NAK that ends the QP: what the peer has refused. It is a rnic.PeerError.
type Refusal struct {
	Code packet.NAKCode
	STag rnic.STag // that the refused operation named; 0: none
}

func (e *Refusal) Error() string { return fmt.Sprintf("roce: refused by the peer: %v", e.Code) }

// RefusedSTag is the STag of the peer's that a remote access error was about.
func (e *Refusal) RefusedSTag() (stag uint32, ok bool) {
	return uint32(e.STag), e.Code == packet.NAKRemoteAccess && e.STag != 0
}

// A Fault is what was wrong with a request of the peer's: it is told by a NAK, and the QP ends.
type Fault struct {
	Code packet.NAKCode
	What Drop
}

func (e *Fault) Error() string { return fmt.Sprintf("roce: %v of the peer: %v", e.Code, e.What) }

// receiveRC takes a packet that was admitted: a request of the peer's, or the answer to one of
// ours. The caller holds mu.
func (qp *QP) receiveRC(now Instant, p *Packet) Drop {
	qp.req.refused = 0
	if qp.res.fault != nil {
		return DropState // a NAK that ends the QP is on its way
	}
	if !p.Reserved && p.Opcode.Operation().Response() {
		return qp.receiveResponse(now, p)
	}
	return qp.receiveRequest(now, p)
}

// nextRC builds the next packet of either half; they take turns, packet by packet, so that neither
// starves. After a pause a request is first: where a message is answered by one, the acknowledge
// leaves after it, and both can travel as one message of UDP.
func (qp *QP) nextRC(now Instant, b []byte) (n int) {
	if n = qp.nextCNP(b); n > 0 {
		return n
	}
	r := &qp.req
	for range 2 {
		if r.answers {
			n = qp.nextAnswer(b)
		} else {
			n = qp.nextRequest(now, b)
		}
		r.answers = !r.answers
		if n > 0 || qp.state == ERR {
			return n
		}
	}
	r.answers = false
	return 0
}

// Deadline is when Tick is to be called, if nothing else happens; ok is false if nothing is
// awaited.
func (qp *QP) Deadline() (at Instant, ok bool) {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	r := &qp.req
	if qp.state == ERR || qp.service != packet.RC {
		return 0, false
	}
	at = r.deadline
	switch {
	case r.rnrUntil != 0:
		at = r.rnrUntil
	case r.probe != 0 && (at == 0 || r.probe < at):
		at = r.probe
	}
	if g := &qp.res.gap; g.open && (at == 0 || g.again < at) {
		at = g.again
	}
	return at, at != 0
}

// Overdue is how many answers in a row have not come in time.
func (qp *QP) Overdue() int {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return int(qp.req.retries)
}

// Tick does what the time asks for: work whose answer is overdue is sent again, by Next, and the
// peer is told again what it owes.
func (qp *QP) Tick(now Instant) {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	r := &qp.req
	if qp.state == ERR || qp.service != packet.RC {
		return
	}
	if qp.tellGap(now); qp.state == ERR {
		return
	}
	if r.rnrUntil != 0 && now >= r.rnrUntil {
		r.rnrUntil = 0
	}
	switch {
	case r.rnrUntil != 0:
	case r.deadline != 0 && now >= r.deadline:
		qp.again(now)
	case r.probe != 0 && now >= r.probe:
		qp.probeLate(now)
	}
}
