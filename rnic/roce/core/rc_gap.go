// Gaps that a peer does not fill: the QP reports them again, and ends if the peer is alive but
// does not retransmit.

package core

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A gap is the range of missing requests, from the expected PSN to ahead. The NAK that reports it
// may be lost. Besides, Linux rxe 6.1 sometimes retransmits nothing, neither after a NAK nor
// after a timeout, although it answers all requests. NFS gives up such a connection only after a
// minute, during which a mount hangs.
type gap struct {
	open     bool
	alive    bool    // the peer has answered a request since the third repeated NAK
	ahead    uint32  // PSN of the furthest out-of-order request
	received int     // number of out-of-order requests
	nextNAK  Instant // when to send the next NAK
	repeats  uint8   // NAKs sent again
}

// ErrGap ends a QP if its peer does not retransmit missing requests.
var ErrGap = fmt.Errorf("%w: the peer does not send again what was lost, though it answers", rnic.ErrConnLost)

// outOfOrder records an out-of-order request. nakSent means that the peer already knows that it
// must retransmit.
func (g *gap) outOfOrder(now Instant, psn, expected uint32, nakSent bool) {
	switch {
	case !g.open:
		*g = gap{open: true, ahead: psn, nextNAK: now + nakDelay}
		if nakSent {
			g.nextNAK = now + nakRepeat
		}
	case distance(psn, expected) > distance(g.ahead, expected):
		g.ahead = psn
	}
	g.received++
}

// filled notes that all requests before expected have arrived. buffered is the number of
// buffered out-of-order requests.
func (g *gap) filled(now Instant, expected uint32, buffered int) {
	if g.open && distance(g.ahead, expected) < halfCircle {
		g.nextNAK, g.repeats, g.alive, g.received = now+nakRepeat, 0, false, buffered // still a gap
		if buffered > 0 {
			g.nextNAK = now + nakDelay
		}
		return
	}
	g.open = false
}

// answered notes that the peer has answered a request of ours.
func (g *gap) answered() { g.alive = g.alive || g.open && g.repeats >= probeAfter }

// checkGap reports the gap again when due, or ends the QP.
func (qp *QP) checkGap(now Instant) {
	g := &qp.res.gap
	if !g.open || now < g.nextNAK || qp.res.fault != nil || !qp.state.receives() {
		return
	}
	if !qp.res.nakSent && qp.res.reorder.n > 0 {
		qp.sendGapNAK(now)
		return
	}
	if g.repeats == maxRepeats {
		if g.open = false; g.alive && distance(g.ahead, qp.in.epsn) < leftWithin {
			qp.becomeERR(ErrGap)
		}
		return
	}
	g.repeats++
	g.nextNAK = now + nakRepeat<<g.repeats
	qp.res.nakSent = true
	qp.res.push(answer{op: packet.OpAck, psn: qp.in.epsn, syndrome: packet.NAK(packet.NAKSequence)})
	if g.repeats >= probeAfter {
		qp.probePeer()
	}
}
