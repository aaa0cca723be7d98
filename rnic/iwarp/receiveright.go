// The receive right: which goroutine runs the receive side of a stream.

package iwarp

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
	"github.com/nfsrdma/nfsrdma/rnic"
)

var _ rnic.Scheduler = (*stream)(nil)

// An owner is the goroutine with the receive right of a stream.
type owner uint64

const (
	ownerLoop     owner = iota // the receive loop, which works or waits for the socket
	ownerWanted                // the receive loop, which offers the right after the next batch
	ownerNone                  // no goroutine: the loop is parked; the next caller takes the right
	ownerCaller                // a caller in PollUntil
	ownerRecalled              // a caller, and the loop has asked for the right
	owners
)

// isLoop reports whether the receive loop has the right. Callers can want the right as soon as the
// loop has it again, before the loop has seen that.
func (o owner) isLoop() bool { return o == ownerLoop || o == ownerWanted }

// nextOwners[o] holds the possible next owners after o, as drawn at receiveRight.
var nextOwners = [owners][]owner{
	ownerLoop:     {ownerWanted},
	ownerWanted:   {ownerNone},
	ownerNone:     {ownerCaller, ownerLoop},
	ownerCaller:   {ownerNone, ownerRecalled, ownerLoop},
	ownerRecalled: {ownerLoop},
}

// onOwner is called for each change; tests check the changes against nextOwners. It is set before
// the first stream is made, and nil in programs.
var onOwner func(from, to owner)

// A moment is the owner of a right, and the number of times that callers have taken the right. Both
// are in one word: if the word has not changed during a tick, no caller has taken or released the
// right.
type moment uint64

func (m moment) owner() owner      { return owner(m & 7) }
func (m moment) of(o owner) moment { return m&^7 | moment(o) }
func (m moment) take() moment      { return m.of(ownerCaller) + 8 }

// A receiveRight is the right to run the receive side of one stream. A caller that waits for a
// reply alone and receives it itself saves two goroutine switches for each round trip, each of
// which wakes a sleeping processor.
//
//	              want      ┌──────────┐ offer               take
//	┌──────────┐ ─────────► │  wanted  │ ─────► ┌──────────┐ ─────► ┌──────────┐
//	│   loop   │            └──────────┘        │   free   │        │   call   │
//	└──────────┘ ◄───────────────────────────── └──────────┘ ◄───── └──────────┘
//	     ▲  ▲               reclaim                        release    │      │
//	     │  └───────────── release, with an error ────────────────────┘      │ recall
//	     │                                          ┌──────────┐             │
//	     └────────────── release ────────────────── │ recalled │ ◄───────────┘
//	                                                └──────────┘
//
// Callers take, want and release; the receive loop does the rest, and is parked while it lacks the
// right. The owner also owns the receiver's state: an error that ended the input stays in the
// state, and the loop finds the error when it has the right again.
type receiveRight struct {
	now   atomic.Uint64 // a moment; become is its only writer
	wake  chan struct{} // one token: the parked loop checks whether it is needed
	asked atomic.Bool   // the ULP has recalled the caller that had the right; before a token
	slow  wait.Backoff  // active after a recall, because callers with slow replies gain nothing
	tally tally.Counter // see AddTo

	tick *time.Timer // wakes a parked loop; owned by the loop, nil before the loop first parks
}

func (r *receiveRight) init() { r.wake = make(chan struct{}, 1) }

func (r *receiveRight) moment() moment { return moment(r.now.Load()) }
func (r *receiveRight) owner() owner   { return r.moment().owner() }

// wanted reports whether a caller wants the right from the receive loop.
func (r *receiveRight) wanted() bool { return r.owner() == ownerWanted }

// become passes the right on. It reports false, and changes nothing, if now differs from from.
func (r *receiveRight) become(from, to moment) bool {
	if !r.now.CompareAndSwap(uint64(from), uint64(to)) {
		return false
	}
	if onOwner != nil {
		onOwner(from.owner(), to.owner())
	}
	return true
}

// pass passes the right from one owner to another, and reports whether the first one had it.
func (r *receiveRight) pass(from, to owner) bool {
	m := r.moment()
	return m.owner() == from && r.become(m, m.of(to))
}

// take gives a free right to the caller. Otherwise it records that callers want the right, so that
// the loop offers it after the next batch.
func (r *receiveRight) take() bool {
	m := r.moment()
	if m.owner() == ownerNone && r.become(m, m.take()) {
		return true
	}
	if m.owner() == ownerLoop && !r.slow.Pass() {
		r.become(m, m.of(ownerWanted))
	}
	return false
}

// release ends a caller's ownership. ended: the caller's read has failed, so the loop has to see
// the error. release reports whether the right is free; else the loop has the right, and must be
// notified.
func (r *receiveRight) release(ended bool) bool {
	if !ended && r.pass(ownerCaller, ownerNone) {
		r.tally.Win()
		return true
	}
	r.tally.Lose()
	if !r.pass(ownerCaller, ownerLoop) {
		r.pass(ownerRecalled, ownerLoop)
	}
	return false
}

// offer makes the right free if a caller wants it.
func (r *receiveRight) offer() bool { return r.pass(ownerWanted, ownerNone) }

// reclaim gives a free right to the loop.
func (r *receiveRight) reclaim() bool { return r.pass(ownerNone, ownerLoop) }

// recall asks the caller that has the right to release it, and reports whether there is one.
func (r *receiveRight) recall() bool { return r.pass(ownerCaller, ownerRecalled) }

// notify wakes the loop if it is parked, or when it parks next.
func (r *receiveRight) notify() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// startTick starts the clock of a parked loop.
func (r *receiveRight) startTick() *time.Timer {
	if r.tick == nil {
		r.tick = time.NewTimer(parkTick)
	} else {
		r.tick.Reset(parkTick)
	}
	return r.tick
}

// AddTo implements tally.Source. A caller wins if it releases the right by itself, and loses if it
// passes the right to the loop. A caller kept by the backoff from wanting the right is passed.
func (r *receiveRight) AddTo(t tally.Table) {
	c := r.tally.Counts()
	c.Passed = r.slow.Passed()
	t.Add("caller_receive", c)
}

// offerRight lets callers receive, if one of them wants to, until the loop is needed. It returns
// when the loop has the right again.
func (s *stream) offerRight() {
	r := &s.right
	if !r.offer() {
		return
	}
	// A waiting caller may be about to take the right, and then receives for all callers.
	for range offerYields {
		if r.owner() != ownerNone || !s.needsInput() {
			break
		}
		runtime.Gosched()
	}
	if s.needsInput() && r.reclaim() {
		return
	}
	s.park()
}

// needsInput reports whether the loop must read: for a waiting caller, or to end the stream.
func (s *stream) needsInput() bool { return s.waiting() || s.q.Failed() }

// park returns when the receive loop has the right again.
func (s *stream) park() {
	r := &s.right
	tick := r.startTick()
	defer tick.Stop()
	for last := r.moment(); !r.owner().isLoop(); {
		due := false
		select {
		case <-r.wake:
			due = r.asked.Swap(false) || r.owner() == ownerNone || s.q.Failed()
		case <-tick.C:
			due = r.moment() == last
			last = r.moment()
			tick.Reset(parkTick)
		}
		if due {
			s.regain()
		}
	}
}

// regain gives the right to the receive loop, from a caller if one has it.
func (s *stream) regain() {
	for r := &s.right; !r.owner().isLoop(); {
		if !r.reclaim() && r.recall() {
			s.interruptCaller()
		}
	}
}

// interruptCaller ends the wait of a recalled caller, and returns when the loop has the right. The
// end of the stream sets deadlines too, so the deadline is set again until the caller has released
// the right.
func (s *stream) interruptCaller() {
	r := &s.right
	r.slow.Start()
	for !r.owner().isLoop() {
		s.link.conn().SetReadDeadline(past)
		r.tick.Reset(parkTick)
		select {
		case <-r.wake:
		case <-r.tick.C:
		}
	}
	s.restoreDeadline()
}

// restoreDeadline sets the read deadline replaced by interruptCaller.
func (s *stream) restoreDeadline() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.quick: // nothing is read any more
	case s.q.Failed():
		s.link.conn().SetReadDeadline(time.Now().Add(graceTime))
	default:
		s.link.conn().SetReadDeadline(time.Time{})
	}
}

// PollUntil implements rnic.Scheduler.
func (s *stream) PollUntil(done func() bool) {
	r := &s.right
	if s.waiting == nil || !r.take() {
		return
	}
	s.rx.blockThread, s.rx.woken = s.p.cfg.BlockThreads, false
	err := s.receiveFor(done)
	s.rx.blockThread = false
	// waiting is called after the release: a caller that began to wait before the release saw a
	// receiving goroutine, and has notified none.
	if !r.release(err != nil) || s.waiting() {
		r.notify()
	}
}

// receiveFor receives until a caller is done, or ownerRecalled, or the input ends.
func (s *stream) receiveFor(done func() bool) error {
	for s.right.owner() == ownerCaller {
		// Handling is called before done, because a goroutine that runs the handlers may have the
		// caller's reply, and no other input might come.
		handling := s.q.Handling()
		if done() {
			return nil
		}
		if handling {
			runtime.Gosched() // the handler will end soon, since handlers do not wait
		} else if err := s.rx.fill(s.link); err != nil {
			return err
		} else {
			s.digest(done)
		}
	}
	return nil
}

// RecallReceiver implements rnic.Scheduler. A caller that takes the right later asks done first.
func (s *stream) RecallReceiver() {
	if s.right.owner() == ownerCaller {
		s.right.asked.Store(true)
		s.right.notify()
	}
}

// EnsureReceiver implements rnic.Scheduler.
func (s *stream) EnsureReceiver() {
	if s.right.owner() == ownerNone {
		s.right.notify()
	}
}
