// How long a receiver spins, and when that is refused.

package rxwait

import (
	"runtime"
	"testing"
	"time"
)

// one returns a limit of one receiver.
func one() int32 { return 1 }

// alone returns a Spinner in a process without other receivers.
func alone(t *testing.T) Spinner {
	t.Helper()
	spinning.Store(0)
	t.Cleanup(func() { spinning.Store(0) })
	return Spinner{most: one}
}

// TestSpinningForNothing: a spin has a bounded time. A spin without input is a miss, and input in
// time ends the row of misses.
func TestSpinningForNothing(t *testing.T) {
	l := alone(t)
	at := time.Now()
	for i, want := range []int{0, 1, 3, 1} {
		n := 0
		for ; !l.more(at); n++ {
		}
		if n != want {
			t.Fatalf("miss %d: %d waits without a spin before, want %d", i, n, want)
		}
		if i == 2 { // input ends the spin, and another begins
			l.Found()
			l.more(at)
		}
		since := at
		for at = at.Add(time.Microsecond); l.more(at); at = at.Add(time.Microsecond) {
		}
		if d := at.Sub(since); d != spinTime {
			t.Fatalf("miss %d: a spin of %v, want %v", i, d, spinTime)
		}
	}
}

// TestPreemptionIsPaidFor: after a long preemption there are waits without a spin, one for each
// passCost of its duration.
func TestPreemptionIsPaidFor(t *testing.T) {
	l := alone(t)
	at := time.Now()
	if !l.more(at) || !l.more(at.Add(preemptedTime-1)) {
		t.Fatal("the spin ends without a preemption")
	}
	if l.more(at.Add(preemptedTime - 1 + 3*time.Millisecond)) {
		t.Fatal("the spin goes on after a preemption of 3 ms")
	}
	n := 0
	for ; !l.more(at); n++ {
	}
	if want := int(3 * time.Millisecond / passCost); n != want {
		t.Errorf("%d waits without a spin, want %d", n, want)
	}
}

// TestSpinsThatFindPay: spins that find input earn credit, which pays for preemptions: up to a
// bound, and once. Input without a spin earns nothing.
func TestSpinsThatFindPay(t *testing.T) {
	for _, c := range []struct {
		name string
		wins int
		took []time.Duration
		left []time.Duration // of each preemption, less the credit; paid in waits of passCost
	}{
		{"nothing won", 0, []time.Duration{preemptedTime}, []time.Duration{preemptedTime}},
		{"a part", 2, []time.Duration{preemptedTime, preemptedTime}, []time.Duration{preemptedTime - 2*spinGain, preemptedTime}},
		{"more than it takes", 10, []time.Duration{preemptedTime, preemptedTime, preemptedTime}, []time.Duration{0, 0, 3*preemptedTime - 10*spinGain}},
		{"no more than a time slice", 1 << 20, []time.Duration{creditMax + time.Millisecond, preemptedTime}, []time.Duration{time.Millisecond, preemptedTime}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := alone(t)
			at := time.Now()
			for range c.wins {
				l.Found() // without a spin
				if !l.more(at) {
					t.Fatal("no spin")
				}
				l.Found()
			}
			for i, took := range c.took {
				n := 0
				for ; !l.more(at); n++ {
				}
				if i > 0 && n != int(c.left[i-1]/passCost) {
					t.Errorf("%d waits without a spin, want %v paid for by them", n, c.left[i-1])
				}
				if at = at.Add(took); l.more(at) {
					t.Fatalf("the spin goes on after a preemption of %v", took)
				}
			}
			n := 0
			for ; !l.more(at); n++ {
			}
			if left := c.left[len(c.left)-1]; n != int(left/passCost) {
				t.Errorf("%d waits without a spin, want %v paid for by them", n, left)
			}
		})
	}
}

// TestStoppedProcess: a process that was stopped while it spun spins again soon.
func TestStoppedProcess(t *testing.T) {
	l := alone(t)
	at := time.Now()
	l.more(at)
	if at = at.Add(time.Hour); l.more(at) {
		t.Fatal("the spin goes on after an hour")
	}
	n := 0
	for ; n <= 1_000_000 && !l.more(at); n++ {
	}
	if want := int(preemptionMax / passCost); n != want {
		t.Errorf("%d waits without a spin, want %d", n, want)
	}
}

// TestInputWithoutSpinDoesNotCount: input without a spin ends no row of misses.
func TestInputWithoutSpinDoesNotCount(t *testing.T) {
	l := alone(t)
	l.missed()
	l.missed()
	l.Found()
	at, n := time.Now(), 0
	for ; !l.more(at); n++ {
	}
	if n != 3 {
		t.Errorf("%d waits without a spin after two misses, want 3", n)
	}
}

// TestSpinnersAreBounded: no more receivers spin than the limit, and the end of a spin makes room.
func TestSpinnersAreBounded(t *testing.T) {
	at := time.Now()
	a, b, none := alone(t), alone(t), Spinner{}
	if !a.more(at) || b.more(at) {
		t.Fatal("none or two spin at a limit of one")
	}
	a.Found()
	if none.more(at) {
		t.Fatal("one spins at no limit")
	}
	if !b.more(at) || a.more(at) {
		t.Fatal("the end of a spin has made no room, or for two")
	}
	if b.more(at.Add(time.Minute)) {
		t.Fatal("the spin goes on after a minute")
	}
	if !a.more(at) {
		t.Fatal("a preempted spin has made no room")
	}
}

// TestLimitFollowsProcessors: the limit follows GOMAXPROCS, down and up.
func TestLimitFollowsProcessors(t *testing.T) {
	t.Cleanup(runtime.SetDefaultGOMAXPROCS)
	l := NewSpinner()
	for _, procs := range []int{4, 1, 6} {
		runtime.GOMAXPROCS(procs)
		for start := time.Now(); l.most.now() != int32(procs/2); runtime.Gosched() {
			if time.Since(start) > time.Minute {
				t.Fatalf("%d receivers may spin with %d processors, want %d", l.most.now(), procs, procs/2)
			}
		}
	}
}
