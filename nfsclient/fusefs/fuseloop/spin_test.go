// Spinning for requests: how long, and when the reader backs off.

package fuseloop

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
)

// The reader spins for a bounded time. A spin without input is a miss, and a request in time ends
// the sequence of misses.
func TestSpinningWithoutInput(t *testing.T) {
	var l spinner
	at := time.Now()
	for i, want := range []int{0, 1, 3, 1} {
		n := 0
		for ; !l.keepSpinning(at); n++ {
		}
		if n != want {
			t.Fatalf("miss %d: slept %d times at once before, want %d", i, n, want)
		}
		if i == 2 { // here the reader finds a request, and spins again
			l.end(at)
			l.keepSpinning(at)
		}
		looks := 1
		for at = at.Add(spinTime / 4); l.keepSpinning(at); at = at.Add(spinTime / 4) {
			looks++
		}
		if looks != 4 {
			t.Fatalf("miss %d: %d looks, want 4", i, looks)
		}
	}
}

// A request that is found after a long preemption does not count as won by spinning.
func TestPreemptedSpinning(t *testing.T) {
	var l spinner
	at := time.Now()
	if !l.keepSpinning(at) {
		t.Fatal("no look")
	}
	l.end(at.Add(preemptedTime))
	if !l.backoff.Active() {
		t.Error("it looks again at once")
	}
}

// A request that was ready without spinning is not counted.
func TestReadyRequestsDoNotCount(t *testing.T) {
	var l spinner
	l.note(false)
	l.note(false)
	l.end(time.Now())
	n := 0
	for at := time.Now(); !l.keepSpinning(at); n++ {
	}
	if n != 3 {
		t.Errorf("slept %d times at once after two looks in vain, want 3", n)
	}
}

// A spin with a request is counted as won; one without, or after a preemption, as lost. Waits
// without spinning are counted as passed.
func TestSpinsAreCounted(t *testing.T) {
	s := &Server{}
	l, at := &s.reader.spin, time.Now()
	l.keepSpinning(at)
	l.end(at)
	l.end(at) // this wait ends without spinning
	l.keepSpinning(at)
	l.end(at.Add(preemptedTime))
	l.keepSpinning(at)
	if got, want := s.Mechanisms()["fuse_spin"], (tally.Counts{Won: 1, Lost: 1, Passed: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	l.keepSpinning(at)
	l.keepSpinning(at.Add(spinTime))
	if got, want := s.Mechanisms()["fuse_spin"], (tally.Counts{Won: 1, Lost: 2, Passed: 1}); got != want {
		t.Errorf("after a look in vain: got %+v, want %+v", got, want)
	}
}
