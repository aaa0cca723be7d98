// The receiver: the right to receive on a connection, and calls that run where they arrive.

package transport

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/internal/tally"
)

// A receiver is the right to receive on one connection, and the policy for its calls.
//
// A call runs where it arrived, on the receiving goroutine, the leader. A procedure calls
// Call.Busy before it waits. Then the call takes a share of its lane, like a worker's call, and
// the right to receive passes to a follower, an idle pool worker. The procedure continues in its
// goroutine, which is no longer the leader when the procedure returns:
//
//	leader ─── call ─── Busy ─── waits for a disk ─── reply ─── ends, or is an idle worker again
//	                      │
//	                      └──► follower: rest of the batch ─── receives ─── call ─── ...
//
// A call keeps the right if waking the follower would cost more (stays). If the call then waits too
// long, the clock of lead.Leader takes the right away. A call that is never busy keeps the right
// until its end.
type receiver struct {
	lead lead.Leader
	row  lead.Row // of calls that came one by one; counted by the leader

	pool   *workerPool // set once
	follow func()      // set once: replaces the leader, and receives from then on

	parked atomic.Int32 // calls that wait in Busy for a share of their lane
}

func (h *receiver) init(p *workerPool, follow func()) {
	h.pool, h.follow = p, follow
	h.lead.Init(p.clock, func() { p.follow(h.follow) })
}

// AddTo implements tally.Source.
func (h *receiver) AddTo(t tally.Table) { t.Add("run_on_receiver", h.lead.Counts().Tally()) }

// A standing is a call's state with respect to leader and lane.
//
//	     ┌──────────── serve, alone, busy from the start ────────────┐
//	     │                                                           ▼
//	     │                   ┌────────┐   Busy, short or alone   ┌───────┐
//	     │         serve     │  here  │ ───────────────────────► │ stays │
//	┌─────────┐ ───────────► └────────┘                          └───────┘
//	│ arrived │                │    │ Busy
//	└─────────┘   Busy, no     │    └───────────────────────────┐
//	     │        share free   ▼                                ▼
//	     │               ┌──────────┐      share free      ┌─────────┐
//	     └─────────────► │  queued  │ ───────────────────► │  apart  │
//	     │ submit        └──────────┘                      └─────────┘
//	     │                                                      ▲
//	     └──────────────────────────────────────────────────────┘
//	       submit, share free
//
// A call runs in each state but arrived and queued. It can end in any.
type standing uint8

const (
	standsArrived standing = iota // checking the header, or waiting for a copy's reply
	standsHere                    // the leader runs the call; no share, as the call does not wait
	standsStays                   // the leader runs the call, which has a share to wait briefly
	standsQueued                  // the call waits for a share; no other call waits for this one
	standsApart                   // the call has a share, and no other call waits for this one
	standings
)

// standingNext[s] are the possible successors of standing s.
var standingNext = [standings][]standing{
	standsArrived: {standsHere, standsStays, standsQueued, standsApart},
	standsHere:    {standsStays, standsQueued, standsApart},
	standsStays:   {},
	standsQueued:  {standsApart},
	standsApart:   {},
}

// onStanding, if not nil, is called for each change of a standing. Tests set onStanding before the
// first call, to compare the changes with standingNext.
var onStanding func(from, to standing)

// become is the only writer of c.standing. The caller owns c.
func (c *Call) become(s standing) {
	if onStanding != nil {
		onStanding(c.standing, s)
	}
	c.standing = s
}

// leads reports whether c's goroutine is the leader, or was until a moment ago.
func (c *Call) leads() bool { return c.here != nil && c.standing <= standsStays }

// place runs a call where it arrived, or on a worker. leads is false if a follower leads now:
// then the caller must not use the connection.
func (s *dispatcher) place(c *Call) (leads bool) {
	h := c.here
	switch {
	case h == nil: // a worker
	case c.Ctx.Err() != nil: // the connection has ended since the call arrived
		s.turn(c)
		return true
	case c.proc.Inline && h.parked.Load() < maxParked:
		return h.run(s, c, standsHere)
	case h.stays(c, false): // busy from the start
		switch s.pool.share(c, false) {
		case shareTaken:
			return h.run(s, c, standsStays)
		case shareQueued:
			return true
		case shareHopeless:
			s.shed(c)
			return true
		}
	}
	// After submit the pool owns the call, which may even have ended.
	if !s.pool.submit(c) {
		s.shed(c)
	}
	return true
}

// run runs c on the leader's goroutine. A call that does not wait needs no lead.Run, and so no
// clock. Clocks are costly: a timer that is due soon makes each sleep of a thread cost several
// microseconds.
func (h *receiver) run(s *dispatcher, c *Call, as standing) (leads bool) {
	before := h.lead.Latest()
	if as == standsStays {
		c.beginRun()
		h.uncork(c, false)
		c.since = time.Now()
	}
	c.become(as)
	l := s.run(c)
	// After the reply, which may be sent together with others when the leader continues.
	leads = h.lead.Latest() == before || h.lead.End(before+1)
	if l != nil {
		h.pool.release(l)
	}
	return leads
}

// Busy is called by a procedure before it waits for a disk, a lock, memory or the network; once is
// enough. From then on the connection's other calls do not wait for c, and c counts in its lane. If
// the lane has no free share, Busy waits for a share, and returns ErrShed if none comes or the
// connection ends meanwhile. Then the procedure, which has changed nothing so far, must return that
// error.
func (c *Call) Busy() error { return c.busy(false) }

// BusyShortly is Busy for a call that usually waits no longer than waking a thread takes, some
// microseconds: other calls wait for c, for at most two milliseconds.
func (c *Call) BusyShortly() error { return c.busy(true) }

// IsBusy reports whether Busy has been called or is unnecessary: no other call waits for this
// one.
func (c *Call) IsBusy() bool { return c.standing != standsHere }

func (c *Call) busy(short bool) error {
	switch c.standing {
	case standsHere:
	case standsQueued: // the call was shed
		return ErrShed
	default:
		return nil // the call has its share
	}
	h := c.here
	h.uncork(c, short)
	c.beginRun()
	switch h.pool.share(c, true) {
	case shareTaken:
		if h.stays(c, short) {
			c.become(standsStays)
			c.since = time.Now()
		} else {
			c.become(standsApart)
			h.lead.Busy(c.run)
		}
	case shareQueued: // c is queued
		h.parked.Add(1)
		h.lead.Busy(c.run)
		granted := <-c.turn
		h.parked.Add(-1)
		if !granted {
			return ErrShed
		}
		c.inside(1)
		if c.Ctx.Err() != nil { // as in dispatcher.turn
			return ErrShed
		}
		return nil
	case shareHopeless:
		return ErrShed
	}
	c.inside(1)
	return nil
}

// beginRun makes c the leader's run, which the clock or Busy can end, unless c already is. The
// caller is the leader.
func (c *Call) beginRun() {
	if c.run == 0 {
		c.run = c.here.lead.Begin()
	}
}

// uncork sends the replies to the calls before c, the last received call, so that these replies do
// not wait for c or for the follower. If c is short, the replies leave together with c's.
func (h *receiver) uncork(c *Call, short bool) {
	if !short && !c.more {
		c.via.uncork(c)
	}
}

// stays reports whether the leader keeps the right to receive while c may wait. The leader does for
// a short c, or if calls come one by one, when waking another thread would be useless. After a call
// that kept others waiting, the next ones do not stay.
func (h *receiver) stays(c *Call, short bool) bool {
	return c.ownLoop && (short || h.row.Alone()) && !h.lead.Backoff.Pass()
}

// check runs after the procedure of a call that stays. Input received by then has waited for the
// call. check runs before the reply: after it, input may also be the peer's next call, which has
// not waited.
func (h *receiver) check(c *Call) {
	if time.Since(c.since) >= shortCall && (c.more || c.via.inputWaits(c)) {
		h.lead.Backoff.Start()
	}
}
