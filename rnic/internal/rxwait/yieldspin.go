// Spinning with yields: other threads run between two reads.

package rxwait

import (
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
)

// A yieldSpin makes a [Blocker] read before it blocks: it yields the processor to any other thread,
// reads when it runs again, and repeats that for a while. A peer on the same processor then works
// at once, and a peer on another processor need not wake this thread: in a virtual machine a
// wake-up costs the waker 10 µs, and as much again until the thread runs. If no input came, or
// another thread kept the processor for long, its backoff makes the next blocks skip the spin.
type yieldSpin struct {
	wait.Backoff
	tally tally.Counter
}

// may reports whether to spin.
func (t *yieldSpin) may() bool {
	if t.Pass() {
		t.tally.Pass()
		return false
	}
	return true
}

// spin calls found, which yields first, until found reports true or yieldSpinTime has passed; now
// returns the time.
func (t *yieldSpin) spin(now func() time.Time, found func() bool) bool {
	since := now()
	for last := since; ; {
		yes := found()
		at := now()
		away := at.Sub(last) >= yieldPreempted
		if yes || away || at.Sub(since) >= yieldSpinTime {
			t.tally.Note(yes && !away)
			t.Note(yes && !away)
			return yes
		}
		last = at
	}
}
