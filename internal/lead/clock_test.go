// One clock for many leaders, in simulated time.

package lead

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestSharedClock: the clock of many leaders finds each slow request within two ticks, and no short
// one. The clock stops while all are idle, and starts again.
func TestSharedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock(Tick)
		const n = 50
		leaders, followers := make([]Leader, n), [n]atomic.Int32{}
		for i := range leaders {
			leaders[i].Init(c, func() { followers[i].Add(1) })
		}
		for round := range int32(3) {
			runs := [n]Run{}
			for i := range leaders {
				time.Sleep(Tick / n)
				if runs[i] = leaders[i].Begin(); i%2 == 0 {
					wantEnd(t, &leaders[i], runs[i], true)
				}
			}
			pass(2 * Tick)
			for i := range leaders {
				want := round + 1
				if i%2 == 0 {
					want = 0
				} else {
					wantEnd(t, &leaders[i], runs[i], false)
				}
				wantFollowers(t, &followers[i], want)
			}
			pass(2 * Tick)
			if len(c.leaders) > 0 || c.runs {
				t.Fatalf("round %d: the clock runs on, for %d leaders", round, len(c.leaders))
			}
		}
	})
}

// TestSharedClockAllocates: a shared clock allocates nothing in the steady state.
func TestSharedClockAllocates(t *testing.T) {
	c := NewClock(time.Hour)
	leaders := make([]Leader, 4)
	for i := range leaders {
		leaders[i].Init(c, func() {})
	}
	cycle := func() {
		for i := range leaders {
			leaders[i].End(leaders[i].Begin())
		}
		c.tick()
	}
	cycle()
	cycle()
	if n := testing.AllocsPerRun(100, cycle); n != 0 {
		t.Errorf("%v allocations for each tick, want 0", n)
	}
	c.timer.Stop()
}
