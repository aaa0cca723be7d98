// Looking for the next request before sleeping.

package fuseloop

import (
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
)

// A looker is how a reader that has found nothing goes on. A program that makes one call after the
// other makes the next one sooner than a thread can be put to sleep and woken, so the reader looks
// again for a while, and gives the processor to whoever wants it in between: on a small machine the
// program may need it, or the server. Where nothing comes, or where the processor was away for
// long, the reader sleeps at once for the next few times, and for more of them each time in a row.
type looker struct {
	busy    bool
	since   time.Time    // of the first look, when busy
	last    time.Time    // and of the last one
	backoff wait.Backoff // how often it sleeps at once from now on
	tally   tally.Counter
}

const (
	// lookTime is how long it looks: what a program does between two calls, and about what it takes
	// to sleep and to be woken.
	lookTime = 50 * time.Microsecond

	// lookTaken is how long the processor was away when it was not for the sake of a call: who
	// sleeps would have been woken sooner.
	lookTaken = 500 * time.Microsecond
)

// again reports whether to look once more.
func (l *looker) again(now time.Time) bool {
	switch {
	case l.busy && now.Sub(l.since) >= lookTime:
		l.end(false)
		return false
	case l.busy:
		l.last = now
	case l.backoff.Pass():
		l.tally.Pass()
		return false
	default:
		l.busy, l.since, l.last = true, now, now
	}
	return true
}

// end ends looking.
func (l *looker) end(paid bool) {
	l.busy = false
	l.backoff.Note(paid)
	l.tally.Note(paid)
}

// found ends looking: there is a request, or an end of them.
func (l *looker) found(now time.Time) {
	if l.busy {
		l.end(now.Sub(l.last) < lookTaken)
	}
}
