//go:build linux

// Looking for packets some more before going to sleep.

package udp

import (
	"runtime"
	"time"
)

// A looking is how a receiver that has found nothing goes on: it looks again for a while, because the answer to what was just sent is
// often there sooner than a processor could be put to sleep and woken. That is for processors that have nothing better to do. Where somebody else
// takes the processor meanwhile, or where nothing comes in time, the receiver sleeps at once for the next few times, and for more of them each
// time in a row.
type looking struct {
	on     bool // set once
	busy   bool
	since  time.Time // of the first look, when busy
	last   time.Time // and of the last one
	gave   time.Time // when goroutines of this process were last given way to
	misses uint      // in a row
	pass   int       // how often it sleeps at once from now on
}

const (
	// lookTime is how long it looks: several times what a peer works on one packet, and about what it takes to sleep and to be woken.
	lookTime = 50 * time.Microsecond

	// lookTaken is how long it is from one look to the next when somebody else had the processor in between. That may be for milliseconds, in
	// which a packet would have woken who sleeps. lookPrice is what that may cost each packet, a small part of what a look wins.
	lookTaken = 20 * time.Microsecond
	lookPrice = time.Microsecond

	// lookLongest is the longest of such times that counts: a process that was stopped, or a machine that stood still, has not paid for a look.
	lookLongest = 100 * time.Millisecond

	// lookGive is how long goroutines that are ready wait at most for one that looks and finds, time and again, if no other processor
	// takes them. To give way to them each time costs more than it is worth: the scheduler wakes a thread for it.
	lookGive = 200 * time.Microsecond

	maxMisses = 8
)

// newLooking is ready to look, unless that would keep all goroutines from the only processor.
func newLooking() looking { return looking{on: runtime.GOMAXPROCS(0) > 1} }

// again reports whether to look once more.
func (l *looking) again() bool {
	if !l.on {
		return false
	}
	now := time.Now()
	if !l.more(now) {
		return false
	}
	if now.Sub(l.gave) >= lookGive {
		runtime.Gosched()
		l.gave = time.Now()
		l.last = l.gave // what took long was of this process
	}
	return true
}

// more reports whether to look once more.
func (l *looking) more(now time.Time) bool {
	switch {
	case l.busy && now.Sub(l.last) >= lookTaken:
		l.taken(now.Sub(l.last))
		return false
	case l.busy && now.Sub(l.since) >= lookTime:
		l.missed()
		return false
	case l.busy:
		l.last = now
	case l.pass > 0:
		l.pass--
		return false
	default:
		l.busy, l.since, l.last = true, now, now
	}
	return true
}

// missed ends looking, for nothing.
func (l *looking) missed() {
	l.busy = false
	l.misses = min(l.misses+1, maxMisses)
	l.pass = 1<<l.misses - 1
}

// taken ends looking, because somebody else had the processor for a time.
func (l *looking) taken(took time.Duration) {
	l.busy = false
	l.pass = int(min(took, lookLongest) / lookPrice)
}

// found ends looking: packets have come.
func (l *looking) found() {
	if l.busy {
		l.busy, l.misses = false, 0
	}
}
