// The receive loop lent to others: it runs a function of the ULP's, and another goroutine receives if that takes long.

package iwarp

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

var _ rnic.Lender = (*stream)(nil)

const (
	// lendTick is between two looks at what the receive loop has been lent for. What is there at both is slow, and what comes meanwhile is not to
	// wait for it: so it bounds for how long it does, which is twice as long.
	lendTick = 2 * time.Millisecond

	// lendShort is how long a function takes at most that may hold up others: about what it costs to wake a thread for each.
	lendShort = 100 * time.Microsecond

	// lendPasses is how often the loop is not lent after it had to be replaced, or has held up what came.
	lendPasses = 64
)

// lentMost is how many loops of the process are lent at the same time. Beyond that there is always something to do for
// goroutines that are awake, and nothing to be won; and each has a clock.
var lentMost = int32(4 * runtime.GOMAXPROCS(0))

var lent atomic.Int32

// A lending is what the receive loop of a stream does beside receiving. To have another goroutine do it is to wake a thread for it, and
// one more to look for further work.
//
//	Lend        the CQ handler leaves a function
//	take        the goroutine that has run the handler takes it: the receive loop runs it; others give it a goroutine of its own
//	lend        it runs, and nobody receives
//	watchLent   the clock, while loops are lent: where it finds the same function twice, another goroutine becomes the receive loop,
//	            and the former one ends with its function
type lending struct {
	every time.Duration // between two looks; written before the start

	mu     sync.Mutex // guards next, passes
	next   func()
	passes int
	filled atomic.Bool // next is there

	number uint64        // of functions; owned by the receive loop
	under  atomic.Uint64 // number of the one that the receive loop runs; 0: none

	clock   *time.Timer // made by the first that is lent
	ticking atomic.Bool // the clock runs, or is about to
	seen    uint64      // what the clock found last; owned by it while it ticks
}

// Lend is as rnic.Lender has it.
func (s *stream) Lend(f func()) bool {
	l := &s.lending
	if s.waiting != nil { // callers drive: there may be no loop
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.passes > 0:
		l.passes--
		return false
	case l.next != nil || lent.Load() >= lentMost:
		return false
	}
	l.next = f
	l.filled.Store(true)
	return true
}

// take returns the function that was left, or nil.
func (l *lending) take() (f func()) {
	if !l.filled.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f, l.next = l.next, nil
	l.filled.Store(false)
	return f
}

// spill is for a goroutine other than the receive loop that may have run the CQ handler.
func (l *lending) spill() {
	if f := l.take(); f != nil {
		go f()
	}
}

// runLent runs what the handler has left, and reports whether this goroutine is still the receive loop.
func (s *stream) runLent() bool {
	l := &s.lending
	for f := l.take(); f != nil; f = l.take() {
		began := time.Now()
		if !s.lend(f) {
			return false
		}
		// Two that call by turns would else never be found to be two: each call is read when the other's has been run.
		if time.Since(began) >= lendShort && s.inputWaits() {
			l.pass()
		}
		s.q.NotifySends() // of what f has posted; see tells
	}
	return true
}

// inputWaits reports whether the socket has input. It is for the receive loop.
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

// lend runs f, and reports whether this goroutine is still the receive loop.
func (s *stream) lend(f func()) bool {
	l := &s.lending
	lent.Add(1)
	l.number++
	mine := l.number
	if l.clock == nil {
		l.clock = time.AfterFunc(time.Hour, s.watchLent)
	}
	l.under.Store(mine)
	l.tick()
	f()
	return l.end(mine)
}

// end is the end of function n as the lending of the loop: it has ended, or takes too long. Who reports true has ended it.
func (l *lending) end(n uint64) bool {
	if !l.under.CompareAndSwap(n, 0) {
		return false
	}
	lent.Add(-1)
	return true
}

// tells reports whether completions of sends will be told of by the receive loop, once its function has ended, or by
// the clock. It is asked for after they have completed: whoever ends a function, or takes the loop from it, tells after that.
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
		s.wakeTx()     // see tells
		go s.receive() // with the former one's place in s.loops
	}
	l.ticking.Store(false)
	// Asked for afterwards: who has begun before has not started the clock.
	if l.under.Load() != 0 {
		l.tick()
	}
}
