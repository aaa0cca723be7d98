// The receive loop lent to others: it runs a function of the ULP's, and another goroutine receives
// if that takes long.

package iwarp

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lendTick is between two looks at what the receive loop has been lent for. What is there at
	// both is slow, and what comes meanwhile is not to wait for it: so it bounds for how long it
	// does, which is twice as long.
	lendTick = 2 * time.Millisecond

	// lendShort is how long a function takes at most that may hold up others: about what it costs
	// to wake a thread for each.
	lendShort = 100 * time.Microsecond

	// lendMost is how many functions are left at a time: with more, goroutines on other processors
	// have enough to do to be worth waking.
	lendMost = 16

	// lendPasses is how often the loop is not lent after it had to be replaced, or has held up what
	// came.
	lendPasses = 64
)

// lentMost is how many loops of the process are lent at the same time. Beyond that there is always
// something to do for goroutines that are awake, and nothing to be won; and each has a clock.
var lentMost = int32(4 * runtime.GOMAXPROCS(0))

var lent atomic.Int32

// A lending is what the receive loop of a stream does beside receiving. To have another goroutine
// do it is to wake a thread for it, and one more to look for further work.
//
//	Lend        the CQ handler leaves a function
//	runLent     the goroutine that has run the handler takes what there is: the receive loop runs one after another, and what they post
//	            leaves together; others give each a goroutine of its own (spill)
//	answers     one that runs alone posts for the first time: what waits to be read by then has been held up
//	watchLent   the clock, while loops are lent: where it finds the same group of functions twice, another goroutine becomes the receive
//	            loop, those that have not begun get goroutines, and the former loop ends with its function
type lending struct {
	every time.Duration // between two looks; written before the start

	mu     sync.Mutex // guards next, passes, ended
	next   []func()   // in order, at most lendMost
	passes int
	ended  bool        // nobody takes what is left any more
	filled atomic.Bool // next has something

	number uint64        // of groups; owned by the receive loop
	under  atomic.Uint64 // number of the one that the receive loop runs; 0: none
	began  atomic.Int64  // when the function that is alone in its group did, after lendEpoch; 0: it has answered, or there is none
	held   atomic.Bool   // it has held up something; of use once it has ended

	clock   *time.Timer // made by the first that is lent
	ticking atomic.Bool // the clock runs, or is about to
	seen    uint64      // what the clock found last; owned by it while it ticks
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
	case l.passes > 0:
		l.passes--
		return false
	case len(l.next) == lendMost || len(l.next) == 0 && lent.Load() >= lentMost:
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
		s.work.Collect()
		s.parts.begin()
	} else {
		l.held.Store(false)
		l.began.Store(int64(time.Since(lendEpoch)))
	}
	mine := s.beginLent() // from then on the clock can make another goroutine the loop, and end what was begun here
	slow := false
	for f != nil {
		began := time.Now()
		f()
		f, slow = nil, time.Since(began) >= lendShort
		// Once the clock has ended the group another goroutine is the loop, and what is left is
		// that one's.
		if !slow && l.under.Load() == mine {
			f = l.take()
		}
	}
	s.answers()
	if !l.end(mine) {
		return false
	}
	if several {
		s.parts.end()
		s.sendCollected()
	}
	if slow && (l.spill() || l.held.Load() || several && s.inputWaits()) {
		l.pass()
	}
	s.q.NotifySends() // of what has been posted; see tells
	return true
}

// lendEpoch is what lending.began is counted from.
var lendEpoch = time.Now()

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
	if time.Since(lendEpoch)-time.Duration(began) >= lendShort && s.inputWaits() {
		l.held.Store(true)
	}
}

// inputWaits reports whether the socket has input.
func (s *stream) inputWaits() bool {
	l, ok := s.link.(*tcpLink)
	return ok && l.waits()
}

// pass has the loop not be lent for a while.
func (l *lending) pass() {
	l.mu.Lock()
	l.passes = lendPasses
	l.mu.Unlock()
}

// beginLent begins a group of functions that the receive loop runs, and returns its number.
func (s *stream) beginLent() (mine uint64) {
	l := &s.lending
	lent.Add(1)
	l.number++
	mine = l.number
	if l.clock == nil {
		l.clock = time.AfterFunc(time.Hour, s.watchLent)
	}
	l.under.Store(mine)
	l.tick()
	return mine
}

// end is the end of group n as the lending of the loop: it has ended, or takes too long. Who
// reports true has ended it.
func (l *lending) end(n uint64) bool {
	if !l.under.CompareAndSwap(n, 0) {
		return false
	}
	lent.Add(-1)
	return true
}

// tells reports whether completions of sends will be told of by the receive loop, once its
// functions have ended, or by the clock. It is asked for after they have completed: whoever ends a
// group, or takes the loop from it, tells after that.
func (l *lending) tells() bool { return l.under.Load() != 0 }

// tick starts the clock unless it runs.
func (l *lending) tick() {
	if !l.ticking.Load() && l.ticking.CompareAndSwap(false, true) {
		l.clock.Reset(l.every)
	}
}

// watchLent is what the clock does.
func (s *stream) watchLent() {
	l := &s.lending
	n := l.under.Load()
	if n != 0 && n != l.seen {
		l.seen = n
		l.clock.Reset(l.every)
		return
	}
	if n != 0 && l.end(n) {
		l.pass()
		s.parts.end()
		if s.work.Resume() { // of what the functions have posted so far
			s.tx.handOver()
		}
		l.spill()      // not by the transmit loop, which may wait for room
		s.wakeTx()     // to tell of completions; see tells
		go s.receive() // with the former one's place in s.loops
	}
	l.ticking.Store(false)
	// Asked for afterwards: who has begun before has not started the clock.
	if l.under.Load() != 0 {
		l.tick()
	}
}
