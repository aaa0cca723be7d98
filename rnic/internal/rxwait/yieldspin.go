// Looking for input while others have the processor in between.

package rxwait

import (
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
)

// A turns is how a Blocker looks before it sleeps: it gives the processor to any thread that wants
// it, looks when it has it back, and so on for a while. A peer on the same processor works at once
// then, and one on another processor finds somebody awake: to wake a processor that sleeps takes a
// virtual machine 10 us of the waker's time, and as much again until a thread runs there. Where
// nothing comes of it, or where the processor was away for long, it is not done for the next few
// times, and for more of them each time in a row.
type yieldSpin struct {
	wait.Backoff
	tally tally.Counter
}

const (
	// yieldSpinTime is how long it looks: what a server does for most calls that change a name, and a
	// program between two of them.
	yieldSpinTime = 100 * time.Microsecond

	// yieldPreempted is how long the processor was away when it was not for the sake of a call: who
	// sleeps would have been woken sooner.
	yieldPreempted = 500 * time.Microsecond
)

// may reports whether to look.
func (t *yieldSpin) may() bool {
	if t.Pass() {
		t.tally.Pass()
		return false
	}
	return true
}

// look calls found, with the processor given to others before each, until it reports true, or for
// yieldSpinTime; now tells the time.
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
