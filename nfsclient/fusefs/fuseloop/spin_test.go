// How long the reader looks for requests, and when it gives that up.

package fuseloop

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
)

// The reader looks for a bounded time. One that nothing came in is a miss, and a request that came
// in time ends the row of them.
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
		if i == 2 { // it finds what comes, and looks again
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

// A request that was found when the processor had been away for long is none that was won by
// looking.
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

// A request that was there without a look says nothing about looking.
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

// Looks are won with a request, and lost with none or where the processor was away for long; waits
// without one are passed.
func TestSpinsAreCounted(t *testing.T) {
	s := &Server{}
	l, at := &s.reader.spin, time.Now()
	l.keepSpinning(at)
	l.end(at)
	l.end(at) // without a look
	l.keepSpinning(at)
	l.end(at.Add(preemptedTime))
	l.keepSpinning(at)
	if got, want := s.Mechanisms()["fuse_poll"], (tally.Counts{Won: 1, Lost: 1, Passed: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	l.keepSpinning(at)
	l.keepSpinning(at.Add(spinTime))
	if got, want := s.Mechanisms()["fuse_poll"], (tally.Counts{Won: 1, Lost: 2, Passed: 1}); got != want {
		t.Errorf("after a look in vain: got %+v, want %+v", got, want)
	}
}
