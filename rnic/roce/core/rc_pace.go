// What RC does about loss before the peer is given up: times of answers, early repetition, and
// Reads in pieces.

package core

// probing has work sent again long before its answer is overdue by the time-out that both sides
// have agreed on, as soon as it is late by the times that answers have taken. It is not counted as
// a retry: a peer that was stopped is given up no sooner for it.
type probing struct {
	probe  Instant // when; 0: never
	probes uint8   // since an answer was timed; each waits twice as long (RFC 6298 §5.5)

	// What the window was, and what was thought of it, when the oldest packets were sent again; 0:
	// nothing has been, or an answer has come.
	held                   uint32
	heldFound, heldCareful bool

	// The time from a request to its answer, one at a time, and none for what was sent again (RFC
	// 6298 §3, Karn's algorithm).
	timing     bool
	timed      uint32  // PSN
	timedAt    Instant // when it was sent
	mean, vary Instant // smoothed, and how far times are from it (RFC 6298 §2); 0: not known
}

// How late an answer is at least before work is sent again, where a processor that serves something
// else for a moment is no loss; how late where packets were lost not long ago, and it is more
// likely one; how late before any was timed; and how often the time doubles.
const (
	minProbe   Instant = 2e6
	lossyProbe Instant = 500e3
	firstProbe Instant = 20e6
	maxProbes          = 5
)

// probeLate sends the oldest packets again, no more of them than the smallest window has: where a
// queue on the way has become longer, or the peer was stopped, the answer is on its way and nothing
// is lost.
func (qp *QP) probeLate(now Instant) {
	r := &qp.req
	r.probes++
	r.armProbe(now)
	held, found, careful := r.window, r.found, r.careful
	if r.held != 0 { // these have had no answer either
		held, found, careful = max(minWindow, r.held/2), true, true
	}
	qp.lost()
	r.window, r.held, r.heldFound, r.heldCareful = minWindow, held, found, careful
}

// probed is told of the first answer after that: late, it is for more than was sent again, and
// nothing was lost (as RFC 3522 tells the two apart by time stamps). Else the window is half of
// what it was, as after any loss.
func (qp *QP) probed(late bool) {
	r := &qp.req
	switch {
	case r.held == 0:
	case late:
		r.window, r.found, r.careful = r.held, r.heldFound, r.heldCareful
		r.held = 0
		qp.seek(r.high) // what is on its way is not sent again
	default:
		r.shrink()
	}
}

// time notes that a request which is answered at once leaves now.
func (p *probing) time(now Instant, psn uint32) {
	if !p.timing {
		p.timing, p.timed, p.timedAt = true, psn, now
	}
}

// sample takes the time of an answer, if the one that is timed has come.
func (r *requesting) sample(now Instant) {
	if !r.timing || distance(r.una, r.timed)-1 >= halfCircle { // not after it
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

// armProbe has work be sent again when its answer is late.
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

// A Read is asked for in units, each when the window has room for it: it is the requester that
// holds back the peer's packets, for no acknowledge of theirs tells the peer how many get through.
// Requests end at multiples of a unit, counted from the Read's first packet, or at its end; those
// of a careful requester, to whom packets were lost, at multiples of a smaller one, and those of a
// requester whose window has grown to its full size at multiples of a larger one, which are fewer
// packets to ask by, and data in fewer messages of UDP. What is asked for again ends where it did
// the first time: a peer may answer again only what lies in one request that it remembers (IBA
// 9.7.5.1), as Linux rxe does.
const (
	wideUnit = 64
	unit     = 16
	fineUnit = 8
)

// piece is how many packets of a Read are asked for next; 0: none yet.
func (qp *QP) piece(e *entry) (count uint32) {
	r := &qp.req
	switch {
	case r.next != r.high:
		count = distance(r.end(), r.next)
	case len(r.ends) >= qp.attrs.MaxReads:
		return 0 // the peer ends a connection that has more outstanding than it allows
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
		room += fineUnit / 2 // so that a second request is on its way: when the last data of the first is lost, that of the second tells
	}
	if ahead := distance(r.next, r.una); ahead > 0 && ahead+count > room {
		return 0
	}
	return count
}

// end is the end of the request that next, which was sent before, is of.
func (r *requesting) end() uint32 {
	for _, end := range r.ends {
		if ahead := distance(end, r.next); ahead > 0 && ahead < halfCircle {
			return end
		}
	}
	return r.high // not reached: packets of Reads before high lie in a request
}

// passed forgets the places that una has come to. Kept, they would be ahead of it again half a
// circle later.
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

// misplacedEnd reports whether a Read's data ends where no request for it can end, or goes on where
// all of it has come.
func misplacedEnd(e *entry, p *Packet) bool {
	if p.PSN == e.P.last {
		return !p.Opcode.Ends()
	}
	return p.Opcode.Ends() && (distance(p.PSN, e.P.first)+1)%fineUnit != 0
}
