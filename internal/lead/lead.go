// The leader: the right to receive, and the clock that moves it on.

// Package lead manages the right to receive requests from one source: a device or a connection.
//
// One goroutine has the right: the leader. If requests come one by one, the leader runs each
// request itself: handing a request to another goroutine wakes a thread, which takes longer than
// most requests. Nothing is received while the leader runs a request. So the right moves on when a
// request takes long: a follower, which the owner of the source starts, becomes the leader, and the
// former leader ends when it has finished its request.
//
// A [Leader] has the right and its clock, a [Row] recognises requests that come one by one, and a
// [wait.Backoff] leaves requests to other goroutines for a while after a request had to wait.
package lead

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
)

// Tick is the time between two checks of a run by the clock. It bounds how long other requests wait
// for a slow one: two ticks. Two milliseconds are some hundred times the length of a short request,
// so the clock costs nothing. They are less than a disk takes to seek.
const Tick = 2 * time.Millisecond

// state is the activity of the leader, and whether the clock runs.
//
//	                            Begin                        tick
//	┌───────────┐ starts the clock ┌───────────┐ ──────────────────────► ┌────────┐
//	│ receiving │ ───────────────► │  running  │                         │  late  │
//	└───────────┘                  └───────────┘                         └────────┘
//	      ▲                    Begin ▲       │ End                           │ End
//	      │                          │       │ Busy: a follower leads        │ Busy: a follower leads
//	      │ tick                     │       ▼                               │ tick: a follower leads
//	      │ stops the clock      ┌───────────────┐                           │
//	      └───────────────────── │    ticking    │ ◄─────────────────────────┘
//	                             └───────────────┘
type state uint64

const (
	receiving state = iota // the leader receives; the clock does not tick for it
	ticking                // the leader receives; the clock still ticks for it
	running                // the leader runs a request, which the clock has not seen
	late                   // the leader runs a request that the clock has seen once
	states
)

// nexts[s] holds the states that can follow s, as drawn at state.
var nexts = [states][]state{
	receiving: {running},
	ticking:   {running, receiving},
	running:   {ticking, late},
	late:      {ticking},
}

// A Run is the number of a request that a leader runs, from 1 on.
type Run uint64

// A moment is the state of a Leader and the number of its latest run. Both are in one word, so a
// former leader's compare-and-swap fails: its run has ended or another one has begun, and the word
// differs.
type moment uint64

func at(r Run, s state) moment     { return moment(r)<<2 | moment(s) }
func (m moment) run() Run          { return Run(m >> 2) }
func (m moment) state() state      { return state(m & 3) }
func (m moment) in(s state) moment { return at(m.run(), s) }

// A Leader manages the right to receive from one source. Only the leader calls Begin, and only the
// goroutine that has begun the run calls End and Busy. Any goroutine may call the other methods. No
// lock is needed, because now is the only state that passes between goroutines, and the rest is
// counters and Backoff.
type Leader struct {
	// Backoff counts the requests left to other goroutines. It starts when the clock moves the
	// right on; the owner may start it for other reasons, and calls Pass.
	Backoff wait.Backoff

	// set once, by Init
	follow  func()
	clock   *Clock
	onState func(from, to state) // not nil in tests: called for each change of state

	now            atomic.Uint64 // a moment
	slow, declared atomic.Uint64 // runs replaced by the clock, and runs ended by Busy
}

// Init is called once, before all other methods. follow starts a goroutine as the new leader. The
// clock or Busy calls follow with no lock held, and follow must not wait. When the clock calls it,
// the former leader may have ended already.
func (l *Leader) Init(c *Clock, follow func()) { l.clock, l.follow = c, follow }

// Begin begins a run: the leader calls it before it runs a request. While the request runs nothing
// is received.
func (l *Leader) Begin() Run {
	m := moment(l.now.Load())
	next := at(m.run()+1, running)
	for !l.become(m, next) { // the clock has stopped meanwhile
		m = moment(l.now.Load())
	}
	if m.state() == receiving {
		l.clock.add(l)
	}
	return next.run()
}

// End is called after a request has been run. It reports whether the calling goroutine is still the
// leader. If not, a follower is the leader now.
func (l *Leader) End(r Run) bool {
	// Running is tried first, because a run can change from running to late, but not back.
	return l.become(at(r, running), at(r, ticking)) || l.become(at(r, late), at(r, ticking))
}

// Busy declares that the request may wait: a follower becomes the leader at once. The request
// continues, but its goroutine is no longer the leader.
func (l *Leader) Busy(r Run) {
	if l.End(r) {
		l.declared.Add(1)
		l.follow()
	}
}

// tick is called by the clock. It reports whether the clock has to tick again.
func (l *Leader) tick() (again bool) {
	switch m := moment(l.now.Load()); m.state() {
	case ticking:
		if l.become(m, m.in(receiving)) {
			return false
		}
	case running:
		l.become(m, m.in(late))
	case late:
		if l.become(m, m.in(ticking)) {
			l.slow.Add(1)
			l.Backoff.Start()
			l.follow()
		}
	}
	return true
}

// become is the only method that writes now. It reports false, and changes nothing, if now differs
// from from.
func (l *Leader) become(from, to moment) bool {
	if !l.now.CompareAndSwap(uint64(from), uint64(to)) {
		return false
	}
	if l.onState != nil {
		l.onState(from.state(), to.state())
	}
	return true
}

// Latest returns the number of the latest run; 0: no run has begun.
func (l *Leader) Latest() Run { return moment(l.now.Load()).run() }

// Current returns the number of the leader's current run; 0: the leader receives.
func (l *Leader) Current() Run {
	if m := moment(l.now.Load()); m.state() >= running {
		return m.run()
	}
	return 0
}

// Counts counts a Leader's requests since the Leader was made, by decision.
type Counts struct {
	Ran      uint64 // requests that leaders have begun to run
	Replaced uint64 // requests among Ran that the clock found slow
	Busy     uint64 // requests among Ran that called Busy
	Passed   uint64 // requests left to other goroutines by the backoff
}

// Counts returns the counts, each as of some moment during the call.
func (l *Leader) Counts() Counts {
	return Counts{
		Ran:      uint64(moment(l.now.Load()).run()),
		Replaced: l.slow.Load(),
		Busy:     l.declared.Load(),
		Passed:   l.Backoff.Passed(),
	}
}

// Tally returns c as outcomes: a run is won if the leader still led at its end. A current run
// counts as won.
func (c Counts) Tally() tally.Counts {
	lost := c.Replaced + c.Busy
	return tally.Counts{Won: c.Ran - min(c.Ran, lost), Lost: lost, Passed: c.Passed}
}
