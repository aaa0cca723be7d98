// How long a receiver looks for packets, and when it gives that up.

package rxwait

import (
	"runtime"
	"testing"
	"time"
)

// one is how many look at most.
func one() int32 { return 1 }

// alone is a Spinner that is the only one.
func alone(t *testing.T) Spinner {
	t.Helper()
	spinning.Store(0)
	t.Cleanup(func() { spinning.Store(0) })
	return Spinner{most: one}
}

// A receiver looks for a bounded time. One that nothing came in is a miss, and packets that came in
// time end the row of them.
func TestSpinningForNothing(t *testing.T) {
	l := alone(t)
	at := time.Now()
	for i, want := range []int{0, 1, 3, 1} {
		n := 0
		for ; !l.more(at); n++ {
		}
		if n != want {
			t.Fatalf("miss %d: %d times without a look before, want %d", i, n, want)
		}
		if i == 2 { // it finds what comes, and looks again
			l.Found()
			l.more(at)
		}
		since := at
		for at = at.Add(time.Microsecond); l.more(at); at = at.Add(time.Microsecond) {
		}
		if d := at.Sub(since); d != spinTime {
			t.Fatalf("miss %d: it looks for %v, want %v", i, d, spinTime)
		}
	}
}

// Giving way to others for long is paid for by as many packets as make it cheap.
func TestPreemptionIsPaidFor(t *testing.T) {
	l := alone(t)
	at := time.Now()
	if !l.more(at) || !l.more(at.Add(preemptedTime-1)) || l.more(at.Add(preemptedTime-1+3*time.Millisecond)) {
		t.Fatal("somebody had the processor for 3 ms, and that was not seen")
	}
	n := 0
	for ; !l.more(at); n++ {
	}
	if n != int(3*time.Millisecond/passCost) {
		t.Errorf("%d times without a look", n)
	}
}

// What looks have won pays for what others take, up to a bound, and once; looks that found
// something without looking win nothing.
func TestSpinsThatFindPay(t *testing.T) {
	for _, c := range []struct {
		name string
		wins int
		took []time.Duration
		left []time.Duration // of each, after what had been won: a packet passed over pays passCost
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
				l.Found() // without a look
				if !l.more(at) {
					t.Fatal("no look")
				}
				l.Found()
			}
			for i, took := range c.took {
				n := 0
				for ; !l.more(at); n++ {
				}
				if i > 0 && n != int(c.left[i-1]/passCost) {
					t.Errorf("%d times without a look, %v are left to pay", n, c.left[i-1])
				}
				if at = at.Add(took); l.more(at) {
					t.Fatalf("%v without the processor was not seen", took)
				}
			}
			n := 0
			for ; !l.more(at); n++ {
			}
			if left := c.left[len(c.left)-1]; n != int(left/passCost) {
				t.Errorf("%d times without a look, %v are left to pay", n, left)
			}
		})
	}
}

// A process that was stopped while it looked looks again before long.
func TestStoppedProcess(t *testing.T) {
	l := alone(t)
	at := time.Now()
	l.more(at)
	if at = at.Add(time.Hour); l.more(at) {
		t.Fatal("an hour without the processor was not seen")
	}
	n := 0
	for ; n <= 1_000_000 && !l.more(at); n++ {
	}
	if n != int(preemptionMax/passCost) {
		t.Errorf("%d times without a look", n)
	}
}

// What comes without a look says nothing about looking.
func TestInputWithoutSpinDoesNotCount(t *testing.T) {
	l := alone(t)
	l.missed()
	l.missed()
	l.Found()
	at, n := time.Now(), 0
	for ; !l.more(at); n++ {
	}
	if n != 3 {
		t.Errorf("%d times without a look after two in vain, want 3", n)
	}
}

// No more look at the same time than are meant to, and who ends makes room.
func TestSpinnersAreBounded(t *testing.T) {
	at := time.Now()
	a, b, none := alone(t), alone(t), Spinner{}
	if !a.more(at) || b.more(at) {
		t.Fatal("two look where one is meant to")
	}
	a.Found()
	if none.more(at) {
		t.Fatal("one looks where nobody is meant to")
	}
	if !b.more(at) || a.more(at) {
		t.Fatal("who ended has made no room, or for two")
	}
	if b.more(at.Add(time.Minute)) {
		t.Fatal("a minute without the processor was not seen")
	}
	if !a.more(at) {
		t.Fatal("who gave the processor to others has made no room")
	}
}

// A program that has fewer processors than before looks with fewer, and with more again when it has
// them back.
func TestLimitFollowsProcessors(t *testing.T) {
	t.Cleanup(runtime.SetDefaultGOMAXPROCS)
	l := NewSpinner()
	for _, procs := range []int{4, 1, 6} {
		runtime.GOMAXPROCS(procs)
		for start := time.Now(); l.most.now() != int32(procs/2); runtime.Gosched() {
			if time.Since(start) > time.Minute {
				t.Fatalf("%d may look of %d processors", l.most.now(), procs)
			}
		}
	}
}
