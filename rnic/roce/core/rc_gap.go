// Gaps that a peer does not fill: it is told again what is missing, and left if it is there and
// does nothing about it.

package core

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A gap is what is missing of a peer's requests: from the expected PSN to ahead. The NAK that tells
// so may be lost. And Linux's rxe of 6.1 at times sends nothing again, neither when it is told nor
// by its timer, while it answers whatever is asked of it: NFS gives up such a connection after a
// minute, in which a mount stands still.
type gap struct {
	open  bool
	alive bool    // the peer has answered something since it was told for the third time
	ahead uint32  // the last of the requests that came too early
	came  int     // how many these are
	again Instant // when the peer is told, or told again
	times uint8   // that it has been
}

// Packets overtake each other on their way, most of them by few places. So the peer is told of a
// gap when this many requests have come that were behind what is missing (RFC 5681 §3.2 has the
// same number), or after some time, which is less than a requester waits.
const (
	tellAfter         = 3
	tellWait  Instant = 300e3
)

// The peer is told again after firstTell, and each time after twice as long. When that was maxTells
// times, after 6.3 s in all, it is left if it is alive. By then its timer has gone off twice at
// least: Linux has one of 0.5 to 2.1 s. Whether it is alive is asked from probedTells on.
const (
	firstTell   Instant = 100e6
	maxTells    uint8   = 5
	probedTells uint8   = 3
)

// leftWithin is how far ahead of what is expected a request can be that ends a QP. rxe has no more
// than 128 PSNs under way. One that is further ahead may be forged, by who knows the QPN alone:
// half of all PSNs are ahead.
const leftWithin = 256

// ErrGap ends a QP whose peer does not send again what is missing.
var ErrGap = fmt.Errorf("%w: the peer does not send again what was lost, though it answers", rnic.ErrConnLost)

// missed notes that a request has come too early; told: the peer knows already that it has to send
// again.
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

// filled notes that all before expected has come, and how many requests are kept that came too
// early.
func (g *gap) filled(now Instant, expected uint32, kept int) {
	if g.open && distance(g.ahead, expected) < halfCircle {
		g.again, g.times, g.alive, g.came = now+firstTell, 0, false, kept // some of it is still missing
		if kept > 0 {
			g.again = now + tellWait
		}
		return
	}
	g.open = false
}

// answered notes that the peer has answered a request of ours.
func (g *gap) answered() { g.alive = g.alive || g.open && g.times >= probedTells }

// tellGap tells the peer again what is missing, when it is time, or leaves it.
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
