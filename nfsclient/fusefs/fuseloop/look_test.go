// How long the reader looks for requests, and when it gives that up.

package fuseloop

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
)

// The reader looks for a bounded time. Each time in a row that nothing came it sleeps at once twice
// as often, up to a bound, before it looks again, and when something came it begins anew.
func TestLookingForNothingBecomesRare(t *testing.T) {
	var l looker
	at := time.Now()
	// miss looks until there is no more looking, and returns how often it slept at once before.
	miss := func() (slept int) {
		t.Helper()
		for at = at.Add(time.Second); !l.again(at); at = at.Add(time.Second) {
			slept++
		}
		looks := 1
		for ; l.again(at); at = at.Add(lookTime / 4) {
			looks++
		}
		if looks != 5 {
			t.Fatalf("%d looks", looks)
		}
		return slept
	}
	for _, want := range []int{0, 1, 3, 7, 15, 31, 63, 127, 255, 255} {
		if n := miss(); n != want {
			t.Fatalf("slept %d times at once, want %d", n, want)
		}
	}
	for !l.again(at) {
	}
	l.found(at)
	miss()
	if n := miss(); n != 1 {
		t.Errorf("slept %d times at once after a request was found and one was not", n)
	}
}

// A request that was found when the processor had been away for long is none that was won by
// looking.
func TestLookingThatOthersInterrupt(t *testing.T) {
	var l looker
	at := time.Now()
	if !l.again(at) {
		t.Fatal("no look")
	}
	l.found(at.Add(lookTaken))
	if l.misses != 1 || l.again(at) {
		t.Errorf("%d misses", l.misses)
	}
}

// A request that was there without a look says nothing about looking.
func TestRequestsThatWereThereDoNotCount(t *testing.T) {
	var l looker
	l.missed()
	l.missed()
	l.found(time.Now())
	if l.misses != 2 || l.passes != 3 {
		t.Errorf("%d misses, %d to pass", l.misses, l.passes)
	}
}

// Looks are won with a request, and lost with none or where the processor was away for long; waits
// without one are passed.
func TestLooksAreCounted(t *testing.T) {
	s := &Server{}
	l, at := &s.reading.look, time.Now()
	l.again(at)
	l.found(at)
	l.found(at) // without a look
	l.again(at)
	l.found(at.Add(lookTaken))
	l.again(at)
	if got, want := s.Mechanisms()["fuse_poll"], (tally.Counts{Won: 1, Lost: 1, Passed: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	l.again(at)
	l.again(at.Add(lookTime))
	if got, want := s.Mechanisms()["fuse_poll"], (tally.Counts{Won: 1, Lost: 2, Passed: 1}); got != want {
		t.Errorf("after a look in vain: got %+v, want %+v", got, want)
	}
}
