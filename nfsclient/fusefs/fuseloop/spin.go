// Spinning for the next request before parking.

package fuseloop

import (
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
)

// A spinner decides whether a reader without input spins. A program with one call at a time sends
// the next call sooner than a thread can park and wake up. So the reader polls again for a while.
// It yields the CPU between polls, because on a small machine the program or the server may need
// the CPU. If no request comes, or after a long preemption, the reader parks without spinning the
// next few times, and more often after each failure in a row.
type spinner struct {
	spinning bool
	since    time.Time    // the first poll, if spinning
	last     time.Time    // the last poll
	backoff  wait.Backoff // counts the passes without spinning
	tally    tally.Counter
}

// keepSpinning reports whether to poll once more.
func (s *spinner) keepSpinning(now time.Time) bool {
	switch {
	case s.spinning && now.Sub(s.since) >= spinTime:
		s.note(false)
		return false
	case s.spinning:
		s.last = now
	case s.backoff.Pass():
		s.tally.Pass()
		return false
	default:
		s.spinning, s.since, s.last = true, now, now
	}
	return true
}

// note ends spinning; paid is set if spinning has saved time.
func (s *spinner) note(paid bool) {
	s.spinning = false
	s.backoff.Note(paid)
	s.tally.Note(paid)
}

// end ends spinning after a request or an error.
func (s *spinner) end(now time.Time) {
	if s.spinning {
		s.note(now.Sub(s.last) < preemptedTime)
	}
}
