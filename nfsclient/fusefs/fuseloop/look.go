// Looking for the next request before sleeping.

package fuseloop

import (
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
)

// A looker is how a reader that has found nothing goes on. A program that makes one call after the
// other makes the next one sooner than a thread can be put to sleep and woken, so the reader looks
// again for a while, and gives the processor to whoever wants it in between: on a small machine the
// program may need it, or the server. Where nothing comes, or where the processor was away for
// long, the reader sleeps at once for the next few times, and for more of them each time in a row.
type looker struct {
	busy   bool
	since  time.Time // of the first look, when busy
	last   time.Time // and of the last one
	misses uint      // in a row
	passes int       // how often it sleeps at once from now on
	tally  tally.Counter
}

const (
	// lookTime is how long it looks: what a program does between two calls, and about what it takes
	// to sleep and to be woken.
	lookTime = 50 * time.Microsecond

	// lookTaken is how long the processor was away when it was not for the sake of a call: who
	// sleeps would have been woken sooner.
	lookTaken = 500 * time.Microsecond

	maxMisses = 8
)

// again reports whether to look once more.
func (l *looker) again(now time.Time) bool {
	switch {
	case l.busy && now.Sub(l.since) >= lookTime:
		l.missed()
		return false
	case l.busy:
		l.last = now
	case l.passes > 0:
		l.passes--
		l.tally.Pass()
		return false
	default:
		l.busy, l.since, l.last = true, now, now
	}
	return true
}

// missed ends looking, for nothing.
func (l *looker) missed() {
	l.busy = false
	l.tally.Lose()
	l.misses = min(l.misses+1, maxMisses)
	l.passes = 1<<l.misses - 1
}

// found ends looking: there is a request, or an end of them.
func (l *looker) found(now time.Time) {
	switch {
	case l.busy && now.Sub(l.last) >= lookTaken:
		l.missed()
	case l.busy:
		l.tally.Win()
		l.busy, l.misses = false, 0
	}
}
