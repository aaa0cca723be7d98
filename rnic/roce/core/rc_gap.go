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
	open  bool
	alive bool    // the peer has answered a request since the third repeated NAK
	ahead uint32  // the furthest of the out-of-order requests
	came  int     // number of out-of-order requests
	again Instant // when to send the next NAK
	times uint8   // NAKs sent again
}

// Packets overtake each other in the network, mostly by few positions. So the QP reports a gap
// after tellAfter out-of-order requests (RFC 5681 §3.2 uses the same number) or after tellWait,
// which is shorter than a requester's timeout.
const (
	tellAfter         = 3
	tellWait  Instant = 300e3
)

// The QP repeats the NAK after firstTell, and doubles the interval each time. After maxTells
// repetitions, 6.3 s in all, it ends if the peer is alive. By then the peer's timer has expired
// at least twice: Linux's runs for 0.5 to 2.1 s. From probedTells on the QP probes the peer.
const (
	firstTell   Instant = 100e6
	maxTells    uint8   = 5
	probedTells uint8   = 3
)

// leftWithin limits how far ahead of the expected PSN a request can be to end the QP. rxe has at
// most 128 PSNs in flight. A request further ahead may be forged with knowledge of the QPN alone:
// half of all PSNs are ahead.
const leftWithin = 256

// ErrGap ends a QP if its peer does not retransmit missing requests.
var ErrGap = fmt.Errorf("%w: the peer does not send again what was lost, though it answers", rnic.ErrConnLost)

// missed records an out-of-order request. told means that the peer already knows of its duty to
// retransmit.
func (g *gap) missed(now Instant, psn, expected uint32, told bool) {
	switch {
	case !g.open:
		*g = gap{open: true, ahead: psn, again: now + tellWait}
		if told {
			g.again = now + firstTell
		}
	case distance(psn, expected) > distance(g.ahead, expected):
		g.ahead = psn
	}
	g.came++
}

// filled notes that all requests before expected have arrived. kept is the number of out-of-order
// requests still held.
func (g *gap) filled(now Instant, expected uint32, kept int) {
	if g.open && distance(g.ahead, expected) < halfCircle {
		g.again, g.times, g.alive, g.came = now+firstTell, 0, false, kept // still a gap
		if kept > 0 {
			g.again = now + tellWait
		}
		return
	}
	g.open = false
}

// answered notes that the peer has answered a request of ours.
func (g *gap) answered() { g.alive = g.alive || g.open && g.times >= probedTells }

// tellGap reports the gap again when due, or ends the QP.
func (qp *QP) tellGap(now Instant) {
	g := &qp.res.gap
	if !g.open || now < g.again || qp.res.fault != nil || !qp.state.receives() {
		return
	}
	if !qp.res.told && qp.res.early.n > 0 {
		qp.tell(now)
		return
	}
	if g.times == maxTells {
		if g.open = false; g.alive && distance(g.ahead, qp.in.epsn) < leftWithin {
			qp.becomeERR(ErrGap)
		}
		return
	}
	g.times++
	g.again = now + firstTell<<g.times
	qp.res.told = true
	qp.res.push(answer{op: packet.OpAck, psn: qp.in.epsn, syndrome: packet.NAK(packet.NAKSequence)})
	if g.times >= probedTells {
		qp.probePeer()
	}
}
