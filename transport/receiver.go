// The receive side of a connection, and the calls that run where they arrived.

package transport

import (
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/internal/tally"
)

// shortCall is how long a call may take that others wait for: about what it costs to wake a thread.
const shortCall = 100 * time.Microsecond

// A receiver is the right to receive on one connection, and the policy of its calls.
//
// A call runs where it arrived: on the goroutine that receives, the leader. A procedure calls
// Call.Busy before it waits. Then the call takes a share of its lane, as a worker's call does, and
// the right to receive goes to a follower, an idle worker of the pool. The procedure goes on in its
// goroutine, which is not the leader any more when the procedure returns:
//
//	leader ─── call ─── Busy ─── waits for a disk ─── reply ─── ends, or is an idle worker again
//	                      │
//	                      └──► follower: rest of the batch ─── receives ─── call ─── ...
//
// A call keeps the right where that is cheaper than to wake the follower (stays). The clock of
// lead.Leader takes it where this was wrong, and where a procedure does not call Busy.
type receiver struct {
	lead lead.Leader
	row  lead.Row // of calls that were the only one; counted by the leader

	pool   *workerPool // set once
	follow func()      // set once: receives from then on, in place of the former leader
}

func (h *receiver) init(p *workerPool, follow func()) {
	h.pool, h.follow = p, follow
	h.lead.Init(p.clock, func() { p.follow(h.follow) })
}

// AddTo implements tally.Source.
func (h *receiver) AddTo(t tally.Table) { t.Add("run_on_receiver", h.lead.Counts().Tally()) }

// A standing is what a call has, and what depends on it.
//
//	                         ┌────────┐   Busy, short or alone   ┌───────┐
//	               serve     │  here  │ ───────────────────────► │ stays │
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
// A call runs in each of them but the first and queued. It ends from each.
type standing uint8

const (
	standsArrived standing = iota // its header is checked, or it waits for the reply of a copy
	standsHere                    // the leader runs it; it has no share of its lane, for it does not wait
	standsStays                   // the same, with a share: it may wait, for a short time
	standsQueued                  // it waits for a share, and no other call for it
	standsApart                   // it has a share, and no other call waits for it
	standings
)

// The arrows of the drawing: standingNext[s] are those that can follow s.
var standingNext = [standings][]standing{
	standsArrived: {standsHere, standsStays, standsQueued, standsApart},
	standsHere:    {standsStays, standsQueued, standsApart},
	standsStays:   {},
	standsQueued:  {standsApart},
	standsApart:   {},
}

// onStanding is called for each arrow; tests hold them against standingNext. It is written before
// the first call comes, and nil in programs.
var onStanding func(from, to standing)

// become is the one writer of c.standing. The caller owns c.
func (c *Call) become(s standing) {
	if onStanding != nil {
		onStanding(c.standing, s)
	}
	c.standing = s
}

// leads reports whether the goroutine of c is, or was until a moment ago, the leader.
func (c *Call) leads() bool { return c.here != nil && c.standing <= standsStays }

// place runs a call where it arrived, or on a worker. leads is false if a follower leads now: the
// caller then uses nothing of the connection.
func (s *dispatcher) place(c *Call) (leads bool) {
	h := c.here
	switch {
	case h == nil: // a worker
	case c.proc.Inline:
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
	// From submit on the call is the pool's, and may have ended before submit returns.
	if !s.pool.submit(c) {
		s.shed(c)
	}
	return true
}

// run runs c on the leader's goroutine.
func (h *receiver) run(s *dispatcher, c *Call, as standing) (leads bool) {
	run := h.lead.Begin()
	c.run = run
	if as == standsStays {
		h.uncork(c, false)
		c.since = time.Now()
	}
	c.become(as)
	l := s.run(c)
	// After the reply, which is possibly sent with others when the leader goes on.
	leads = h.lead.End(run)
	if l != nil {
		h.pool.release(l)
	}
	return leads
}

// Busy is called by a procedure before it waits, for a disk, a lock, memory or the network: not
// before each time, once is enough. From then on other calls of the connection do not wait for this
// one, and it counts as one of its lane. If the lane has no share left Busy waits for one itself,
// and returns ErrShed if that is in vain: then the procedure, which has changed nothing so far,
// returns that error.
func (c *Call) Busy() error { return c.busy(false) }

// BusyShortly is Busy of a call that usually does not wait for longer than it takes to wake a
// thread, some microseconds: others wait for it, and for two milliseconds at most.
func (c *Call) BusyShortly() error { return c.busy(true) }

// IsBusy reports whether Busy has been called, or need not be: no other call waits for this one.
func (c *Call) IsBusy() bool { return c.standing != standsHere }

func (c *Call) busy(short bool) error {
	switch c.standing {
	case standsHere:
	case standsQueued: // and was shed
		return ErrShed
	default:
		return nil // it has its share
	}
	h := c.here
	h.uncork(c, short)
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
		h.lead.Busy(c.run)
		if !<-c.turn {
			return ErrShed
		}
	case shareHopeless:
		return ErrShed
	}
	c.inside(1)
	return nil
}

// uncork sends the replies of the calls before c, which is the last one of those received, so that
// they do not wait for c or for the follower. The reply of a short call leaves with them.
func (h *receiver) uncork(c *Call, short bool) {
	if !short && !c.more {
		c.via.uncork(c)
	}
}

// stays reports whether the leader keeps the right to receive while c may wait: where c is short,
// or where calls come one by one, it would wake another thread in vain. After a call that kept
// others waiting the next ones do not stay.
func (h *receiver) stays(c *Call, short bool) bool {
	return c.ownLoop && (short || h.row.Alone()) && !h.lead.Backoff.Pass()
}

// check is called after the procedure of a call that stays, before its reply: what has been
// received by then has waited for it. A peer that has the reply may have sent the next call.
func (h *receiver) check(c *Call) {
	if time.Since(c.since) >= shortCall && (c.more || c.via.inputWaits(c)) {
		h.lead.Backoff.Start()
	}
}
