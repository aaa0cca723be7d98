// RC's loss recovery before the peer counts as lost: round-trip times, early retransmission, and
// Reads in units.

package core

import "github.com/nfsrdma/nfsrdma/internal/tally"

// probing retransmits as soon as an answer is late by measured round-trip times, long before the
// negotiated timeout. This does not count as a retry: a stalled peer is given up no sooner.
type probing struct {
	probe  Instant // when to retransmit; 0: never
	probes uint8   // since the last timed answer; each doubles the wait (RFC 6298 §5.5)

	// The window state before the oldest packets were retransmitted; 0: nothing was
	// retransmitted, or an answer has arrived.
	savedWindow                      uint32
	savedCapacityKnown, savedCareful bool

	// Round-trip time: one request is timed at a time, never a retransmitted one (RFC 6298 §3,
	// Karn's algorithm).
	timing     bool
	timed      uint32  // PSN
	timedAt    Instant // when the timed request was sent
	mean, vary Instant // smoothed time and mean deviation (RFC 6298 §2); 0: unknown

	tally tally.Counter // early retransmissions; won: a packet had been lost
}

// probeLate retransmits the oldest packets, at most the smallest window: if a queue in the
// network has grown, or the peer has stalled, the answer is on its way and nothing is lost.
func (qp *QP) probeLate(now Instant) {
	r := &qp.req
	r.probes++
	r.armProbe(now)
	held, found, careful := r.window, r.capacityKnown, r.careful
	if r.savedWindow != 0 { // the probes have had no answer either
		held, found, careful = max(minWindow, r.savedWindow/2), true, true
	}
	qp.rewind()
	r.window, r.savedWindow, r.savedCapacityKnown, r.savedCareful = minWindow, held, found, careful
}

// probed handles the first answer after probeLate. late means that the answer covers more than
// the retransmitted packets, so nothing was lost (RFC 3522 makes this distinction by time
// stamps). Otherwise the window halves as after any loss.
func (qp *QP) probed(late bool) {
	r := &qp.req
	switch {
	case r.savedWindow == 0:
	case late:
		r.tally.Lose()
		r.window, r.capacityKnown, r.careful = r.savedWindow, r.savedCapacityKnown, r.savedCareful
		r.savedWindow = 0
		qp.seek(r.high) // do not retransmit packets in flight
	default:
		r.tally.Win()
		r.shrink()
	}
}

// time starts timing a request that the peer answers at once.
func (p *probing) time(now Instant, psn uint32) {
	if !p.timing {
		p.timing, p.timed, p.timedAt = true, psn, now
	}
}

// sample measures the round-trip time if the timed request has been answered.
func (r *requesting) sample(now Instant) {
	if !r.timing || distance(r.una, r.timed)-1 >= halfCircle { // not acknowledged yet
		return
	}
	r.timing, r.probes = false, 0
	took := now - r.timedAt
	if r.mean == 0 {
		r.mean, r.vary = took, took/2
		return
	}
	off := took - r.mean
	r.mean += off / 8
	r.vary += (max(off, -off) - r.vary) / 4
}

// armProbe sets the time of the next early retransmission.
func (r *requesting) armProbe(now Instant) {
	late := firstProbe
	if r.mean != 0 {
		least := minProbe
		if r.careful {
			least = lossyProbe
		}
		late = max(least, r.mean+4*r.vary)
	}
	r.probe = now + late<<min(r.probes, maxProbes)
}

// unitSize returns the number of Read packets to request next; 0: wait.
//
// A Read is requested in units, each when the window has room: the requester must limit the peer's
// packets, because the peer gets no acknowledges that show how many get through. Requests end at
// multiples of a unit, counted from the Read's first packet, or at the Read's end. A careful
// requester, after a loss, uses smaller units. A requester with a full window uses larger ones, for
// fewer request packets and fewer UDP messages. A repeated request ends where the first request
// did, because a peer may answer only within one remembered request (IBA 9.7.5.1), as Linux rxe
// does.
func (qp *QP) unitSize(e *entry) (count uint32) {
	r := &qp.req
	switch {
	case r.next != r.high:
		count = distance(r.end(), r.next)
	case len(r.ends) >= qp.attrs.MaxReads:
		return 0 // the peer ends a connection with more outstanding Reads than its IRD
	case e.Op.IsAtomic():
		count = 1
	default:
		size := uint32(unit)
		switch {
		case r.careful:
			size = fineUnit
		case r.window == r.widest:
			size = wideUnit
		}
		count = min(distance(e.P.last, r.next)+1, size-distance(r.next, e.P.first)%size)
	}
	room := r.window
	if r.careful && room < 2*fineUnit {
		// Allow a second request: if the first one's last data is lost, the second's data reveals
		// it.
		room += fineUnit / 2
	}
	if ahead := distance(r.next, r.una); ahead > 0 && ahead+count > room {
		return 0
	}
	return count
}

// end returns the end of the earlier request that contains next.
func (r *requesting) end() uint32 {
	for _, end := range r.ends {
		if ahead := distance(end, r.next); ahead > 0 && ahead < halfCircle {
			return end
		}
	}
	return r.high // not reached: a request covers each Read packet before high
}

// passed drops PSNs that una has reached. Half a circle later they would seem ahead again.
func (r *requesting) passed() {
	n := 0
	for n < len(r.ends) && distance(r.una, r.ends[n]) < halfCircle {
		n++
	}
	if n > 0 {
		r.ends = append(r.ends[:0], r.ends[n:]...)
	}
	r.slowed = r.slowed && distance(r.una, r.slowedAt) >= halfCircle
}

// misplacedEnd reports whether Read data ends where no request can end, or continues past the
// Read's end.
func misplacedEnd(e *entry, p *Packet) bool {
	if p.PSN == e.P.last {
		return !p.Opcode.Ends()
	}
	return p.Opcode.Ends() && (distance(p.PSN, e.P.first)+1)%fineUnit != 0
}
