// RC: parts shared by requester and responder: time, PSN distances, and fatal errors.

package core

import (
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// An Instant is a time in nanoseconds on the owner's monotonic clock.
type Instant int64

// distance returns how far PSN a is after PSN from, in the 24-bit circle.
func distance(a, from uint32) uint32 { return (a - from) & maxPSN }

// halfCircle separates PSNs ahead of a given one from those before it (IBA 9.7.2).
const halfCircle = 1 << 23

// packets returns the number of packets in a message of n bytes.
func packets(n uint32, mtu int) uint32 {
	return max(1, uint32((uint64(n)+uint64(mtu)-1)/uint64(mtu)))
}

// returnsData reports whether the peer answers a work request with data: the request uses up one of
// the ORD.
func returnsData(op rnic.Opcode) bool {
	return op == rnic.OpRead || op == rnic.OpReadInvalidate || op.IsAtomic()
}

// plainAtomic reports whether an atomic operation covers a whole 64-bit field: InfiniBand has no
// masks.
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

// A Refusal is the peer's NAK that ended the QP. It is a rnic.PeerError.
type Refusal struct {
	Code packet.NAKCode
	STag rnic.STag // named by the refused operation; 0: none
}

func (e *Refusal) Error() string { return fmt.Sprintf("roce: refused by the peer: %v", e.Code) }

// RefusedSTag returns the peer's STag for which it reported a remote access error.
func (e *Refusal) RefusedSTag() (stag uint32, ok bool) {
	return uint32(e.STag), e.Code == packet.NAKRemoteAccess && e.STag != 0
}

// A Fault is a peer's invalid request: the QP sends a NAK and ends.
type Fault struct {
	Code packet.NAKCode
	What Drop
}

func (e *Fault) Error() string { return fmt.Sprintf("roce: %v of the peer: %v", e.Code, e.What) }

// receiveRC takes an admitted packet: a request by the peer, or an answer to one of ours. The
// caller holds mu.
func (qp *QP) receiveRC(now Instant, p *Packet) Drop {
	qp.req.portClosedSince = 0
	if qp.res.fault != nil {
		return DropState // a NAK that ends the QP is on its way
	}
	if !p.Reserved && p.Opcode.Operation().Response() {
		return qp.receiveResponse(now, p)
	}
	return qp.receiveRequest(now, p)
}

// nextRC builds the next packet of requester or responder. Requester and responder alternate packet
// by packet, so neither starves. After a pause a request goes first. If our message answers the
// peer's, the acknowledge leaves after our message, and both can share a UDP message.
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

// Deadline returns when to call Tick if nothing else happens first. ok is false if no timer runs.
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
	if g := &qp.res.gap; g.open && (at == 0 || g.nextNAK < at) {
		at = g.nextNAK
	}
	return at, at != 0
}

// Overdue returns the number of consecutive missed answers.
func (qp *QP) Overdue() int {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return int(qp.req.retries)
}

// Tick handles expired timers: Next retransmits work with an overdue answer, and the QP reports a
// gap to the peer again.
func (qp *QP) Tick(now Instant) {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	r := &qp.req
	if qp.state == ERR || qp.service != packet.RC {
		return
	}
	if qp.checkGap(now); qp.state == ERR {
		return
	}
	if r.rnrUntil != 0 && now >= r.rnrUntil {
		r.rnrUntil = 0
	}
	switch {
	case r.rnrUntil != 0:
	case r.deadline != 0 && now >= r.deadline:
		qp.retransmit(now)
	case r.probe != 0 && now >= r.probe:
		qp.probeLate(now)
	}
}
