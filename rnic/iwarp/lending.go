// The receive loop lent to others: it runs functions of the ULP's, and another goroutine receives
// if that takes long.

package iwarp

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
)

const (
	// lendShort is how long a function takes at most that may hold up others: about what it costs
	// to wake a thread for each.
	lendShort = 100 * time.Microsecond

	// lendMost is how many functions are left at a time: with more, goroutines on other processors
	// have enough to do to be worth waking.
	lendMost = 16

	// lentPerProc is how many loops of a device are lent at the same time, for each processor.
	// Beyond that there is always something to do for goroutines that are awake, and nothing to be
	// won; and each has a clock.
	lentPerProc = 4
)

// A lending is what the receive loop of a stream does beside receiving. To have another goroutine
// do it is to wake a thread for it, and one more to look for further work.
//
//	Lend        the CQ handler leaves a function
//	runLent     the goroutine that has run the handler takes what there is: the receive loop runs one after another, and what they post
//	            leaves together; others give each a goroutine of its own (spill)
//	answers     one that runs alone posts for the first time: what waits to be read by then has been held up
//	follow      a group takes long: another goroutine becomes the receive loop, functions that have not begun get goroutines, and the
//	            former loop ends with its function
type lending struct {
	lead lead.Leader // of the receive loop; its runs are groups

	mu     sync.Mutex  // guards next, ended
	next   []func()    // in order, at most lendMost
	ended  bool        // nobody takes what is left any more
	filled atomic.Bool // next has something

	epoch time.Time    // set once
	began atomic.Int64 // when the function that is alone in its group did, after epoch; 0: it has answered, or there is none
	held  atomic.Bool  // it has held up something; of use once it has ended
}

func (l *lending) init(s *stream) {
	l.epoch = time.Now()
	l.lead.Init(lead.Tick, s.follow)
}

// Lend is as rnic.Scheduler has it.
func (s *stream) Lend(f func()) bool {
	l := &s.lending
	if s.waiting != nil { // callers drive: there may be no loop
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return false
	case l.lead.Backoff.Pass():
		return false
	case len(l.next) == lendMost || len(l.next) == 0 && s.p.lent.Load() >= s.p.lentMost:
		return false
	}
	l.next = append(l.next, f)
	l.filled.Store(true)
	return true
}

// take returns the function that was left first, or nil.
func (l *lending) take() (f func()) {
	if !l.filled.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.next) == 0 { // another goroutine was quicker
		return nil
	}
	f = l.next[0]
	n := copy(l.next, l.next[1:])
	l.next[n] = nil
	l.next = l.next[:n]
	l.filled.Store(n > 0)
	return f
}

// spill gives what was left goroutines of their own, and reports whether there was any. It is for
// who is not the receive loop and may have run the CQ handler, and for functions that would wait
// for one that is slow.
func (l *lending) spill() (any bool) {
	for f := l.take(); f != nil; f = l.take() {
		any = true
		go f()
	}
	return any
}

// close is spill at the end of the stream, after which nothing is left.
func (l *lending) close() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.spill()
}

// runLent runs what the handlers have left, and reports whether this goroutine is still the receive
// loop.
func (s *stream) runLent() bool {
	// Again and again: a handler that is told of what the functions have sent may leave more, and
	// nothing else might come.
	for s.lending.filled.Load() {
		if !s.runGroup() {
			return false
		}
	}
	return true
}

// runGroup runs the functions that there are, one after another, as runLent does.
func (s *stream) runGroup() bool {
	l := &s.lending
	f := l.take()
	if f == nil {
		return true
	}
	several := l.filled.Load()
	if several { // as afterBatch does with what handlers post
		s.work.Cork()
		s.parts.begin()
	} else {
		l.held.Store(false)
		l.began.Store(int64(time.Since(l.epoch)))
	}
	s.p.lent.Add(1)
	run := l.lead.Begin() // from then on another goroutine can become the loop, and end what was begun here
	slow := false
	for f != nil {
		began := time.Now()
		f()
		f, slow = nil, time.Since(began) >= lendShort
		// Once another goroutine is the loop what is left is that one's.
		if !slow && l.lead.Current() == run {
			f = l.take()
		}
	}
	s.answers()
	if !l.lead.End(run) {
		return false
	}
	s.p.lent.Add(-1)
	s.rx.blockThread = true // the next call comes from the peer that the answer was for
	if several {
		s.parts.end()
		s.sendCollected()
	}
	if slow && (l.spill() || l.held.Load() || several && s.inputWaits()) {
		l.lead.Backoff.Start()
	}
	s.q.NotifySends() // of what has been posted; see tells
	return true
}

// answers notes what a function that runs alone has held up: once, when it posts, or has ended. Two
// that call by turns would else never be found to be two, for each call is read when the other's
// has been run. What comes after the answer is not held up: it may be the next call of whom it was
// for, who can be faster than we are at coming back from sending. What several post leaves when all
// have run.
func (s *stream) answers() {
	l := &s.lending
	began := l.began.Load()
	if began == 0 || !l.began.CompareAndSwap(began, 0) {
		return
	}
	if time.Since(l.epoch)-time.Duration(began) >= lendShort && s.inputWaits() {
		l.held.Store(true)
	}
}

// inputWaits reports whether the socket has input.
func (s *stream) inputWaits() bool {
	l, ok := s.link.(*tcpLink)
	return ok && l.waits()
}

// tells is true if completions of sends will be reported by the receive loop, once its
// functions have ended, or by follow. It is asked after they have completed: the end of a group and
// follow both report after they have ended the run.
func (l *lending) tells() bool { return l.lead.Current() != 0 }

// follow starts another receive loop: the functions that the former one runs take long.
func (s *stream) follow() {
	s.p.lent.Add(-1)
	s.parts.end()
	if s.work.Uncork() { // of what the functions have posted so far
		s.tx.handOver()
	}
	s.lending.spill() // not by the transmit loop, which may wait for room
	s.wakeTx()        // to report completions; see tells
	go s.receive()    // with the former one's place in s.loops
}
