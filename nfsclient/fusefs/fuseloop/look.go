// Spinning for the next request before parking.

package fuseloop

import (
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
)

// A looker decides whether a reader without input spins. A program with one call at a time sends
// the next call sooner than a thread can park and wake up. So the reader polls again for a while.
// It yields the CPU between polls, because on a small machine the program or the server may need
// it. If no request comes, or if the reader was preempted for long, it parks at once for the next
// few times, and more often after each failure in a row.
type looker struct {
	busy    bool
	since   time.Time    // the first poll, if busy
	last    time.Time    // the last poll
	backoff wait.Backoff // passes without spinning
	tally   tally.Counter
}

const (
	// lookTime bounds spinning: the time of a program between two calls, and about the cost of
	// parking and waking up.
	lookTime = 50 * time.Microsecond

	// lookTaken is a preemption too long for one call: a parked reader would have woken up sooner.
	lookTaken = 500 * time.Microsecond
)

// again reports whether to poll once more.
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

// end ends spinning.
func (l *looker) end(paid bool) {
	l.busy = false
	l.backoff.Note(paid)
	l.tally.Note(paid)
}

// found ends spinning after a request or an error.
func (l *looker) found(now time.Time) {
	if l.busy {
		l.end(now.Sub(l.last) < lookTaken)
	}
}
