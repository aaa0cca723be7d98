// Counts of the decisions.

package rxwait

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"golang.org/x/sys/unix"
)

// wantCounts demands the counts of one mechanism of a source.
func wantCounts(t *testing.T, what string, s tally.Source, mechanism string, want tally.Counts) {
	t.Helper()
	all := tally.Table{}
	s.AddTo(all)
	if got := all[mechanism]; got != want {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

// TestSpinsAreCounted: a spin is won with input, and lost with none or with a preemption. A wait
// without a spin is passed.
func TestSpinsAreCounted(t *testing.T) {
	l := alone(t)
	at := time.Now()
	l.more(at)
	l.Found()
	wantCounts(t, "input came", &l, "spin", tally.Counts{Won: 1})
	l.Found()
	wantCounts(t, "input came without a spin", &l, "spin", tally.Counts{Won: 1})
	l.more(at)
	l.missed()
	wantCounts(t, "nothing came", &l, "spin", tally.Counts{Won: 1, Lost: 1})
	l.more(at)
	wantCounts(t, "in the backoff", &l, "spin", tally.Counts{Won: 1, Lost: 1, Passed: 1})
	l.more(at)
	l.preempted(0)
	wantCounts(t, "a preemption", &l, "spin", tally.Counts{Won: 1, Lost: 2, Passed: 1})
	none := Spinner{}
	none.more(at)
	wantCounts(t, "over the limit", &none, "spin", tally.Counts{Passed: 1})
	if n := testing.AllocsPerRun(10, func() { l.more(at); l.Found() }); n != 0 {
		t.Errorf("%v allocations for a spin, want 0", n)
	}
}

// TestBlocksAreCounted: a block is won if input comes soon, and passed where it is refused.
func TestBlocksAreCounted(t *testing.T) {
	s := blocker(t)
	s.may()
	s.noteBlock(true)
	s.may()
	s.noteBlock(false)
	s.backoff.Skip(1)
	s.Block(-1)
	wantCounts(t, "block", s, "block", tally.Counts{Won: 1, Lost: 1, Passed: 1})
}

// TestYieldSpinsAreCounted: a spin with yields is won if input comes in time.
func TestYieldSpinsAreCounted(t *testing.T) {
	s := blocker(t)
	quick := stepping{step: yieldSpinTime / 4, at: 3}
	s.yieldSpin.spin(quick.time, quick.found)
	slow := stepping{step: yieldPreempted, at: 1}
	s.yieldSpin.spin(slow.time, slow.found)
	s.yieldSpin.may()
	wantCounts(t, "yield", s, "yield", tally.Counts{Won: 1, Lost: 1, Passed: 1})
}

// TestMasksAreCounted: a mask is won once for a descriptor of the poller, and lost once for another
// one.
func TestMasksAreCounted(t *testing.T) {
	s := Blocker{mask: pollerMask{slept: max(maskAfter, pollerEntries.Load())}}
	fd := polled(t)
	for range 2 {
		s.mask.set(fd)
		if err := s.mask.clear(fd); err != nil {
			t.Fatalf("clear: %v", err)
		}
	}
	wantCounts(t, "poller_mask", &s, "poller_mask", tally.Counts{Won: 1})
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatalf("Pipe2: %v", err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	refused := Blocker{mask: pollerMask{slept: max(maskAfter, pollerEntries.Load())}}
	refused.mask.set(pipe[0])
	refused.mask.set(pipe[0])
	wantCounts(t, "a mask that is refused", &refused, "poller_mask", tally.Counts{Lost: 1})
}
