// Conversations with a Leader, in simulated time.

package lead

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/wait"
)

// in runs f with a Leader in simulated time; followers counts the followers started so far.
func in(t *testing.T, f func(t *testing.T, l *Leader, followers *atomic.Int32)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var l Leader
		var n atomic.Int32
		l.Init(NewClock(Tick), func() { n.Add(1) })
		f(t, &l, &n)
		time.Sleep(time.Hour)
		if s := moment(l.now.Load()).state(); s != receiving {
			t.Errorf("the clock runs on: state %d, want %d", s, receiving)
		}
	})
}

// pass lets simulated time pass, and timers that are due fire.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func wantFollowers(t *testing.T, followers *atomic.Int32, want int32) {
	t.Helper()
	if got := followers.Load(); got != want {
		t.Fatalf("%d followers, want %d", got, want)
	}
}

func wantEnd(t *testing.T, l *Leader, r Run, leads bool) {
	t.Helper()
	if got := l.End(r); got != leads {
		t.Fatalf("the end of run %d: leads %v, want %v", r, got, leads)
	}
}

// Requests that are short are all run by one leader, however many there are.
func TestShortRequests(t *testing.T) {
	in(t, func(t *testing.T, l *Leader, followers *atomic.Int32) {
		for range 1000 {
			r := l.Begin()
			pass(Tick / 3)
			wantEnd(t, l, r, true)
			pass(Tick / 7)
		}
		wantFollowers(t, followers, 0)
		if got, want := l.Counts(), (Counts{Ran: 1000}); got != want {
			t.Errorf("counts %+v, want %+v", got, want)
		}
	})
}

// A slow request holds up others for two ticks; then a follower leads. End reports this to the
// former leader, and the backoff skips the next requests.
func TestSlowRequest(t *testing.T) {
	in(t, func(t *testing.T, l *Leader, followers *atomic.Int32) {
		slow := l.Begin()
		pass(2*Tick - 1)
		wantFollowers(t, followers, 0)
		pass(1)
		wantFollowers(t, followers, 1)
		for i := range wait.Passes {
			if !l.Backoff.Pass() {
				t.Fatalf("request %d after a slow one is not passed over", i)
			}
		}
		if l.Backoff.Pass() {
			t.Errorf("more than %d requests are passed over", wait.Passes)
		}
		other := l.Begin()
		wantEnd(t, l, slow, false)
		l.Busy(slow) // too late: a follower leads already
		wantEnd(t, l, other, true)
		wantFollowers(t, followers, 1)
		if got, want := l.Counts(), (Counts{Ran: 2, Replaced: 1, Passed: wait.Passes}); got != want {
			t.Errorf("counts %+v, want %+v", got, want)
		}
	})
}

// The clock keeps ticking after a request, so the next one begins at some phase between two ticks.
// The request counts as slow after two ticks less this phase.
func TestSlowIsBetweenOneTickAndTwo(t *testing.T) {
	for phase := time.Duration(0); phase < Tick; phase += Tick / 8 {
		for takes, leads := range map[time.Duration]bool{Tick - 1: true, 2*Tick - phase - 1: true, 2*Tick - phase: false} {
			in(t, func(t *testing.T, l *Leader, followers *atomic.Int32) {
				wantEnd(t, l, l.Begin(), true) // starts the clock
				pass(phase)
				r := l.Begin()
				pass(takes)
				wantEnd(t, l, r, leads)
			})
		}
	}
}

// A clock that stops while a request begins takes nothing from the leader: the leader is replaced
// exactly as often as a follower starts.
func TestClockThatStops(t *testing.T) {
	var l Leader
	var followers, lost atomic.Int32
	l.Init(NewClock(time.Nanosecond), func() { followers.Add(1) })
	for range 100_000 {
		if r := l.Begin(); !l.End(r) {
			lost.Add(1)
		}
	}
	for moment(l.now.Load()).state() != receiving { // the clock is about to stop
		runtime.Gosched()
	}
	if got, want := lost.Load(), followers.Load(); got != want {
		t.Errorf("replaced %d times by %d followers", got, want)
	}
}

// After Busy a follower leads at once, without the clock, and the backoff does not skip the next
// requests.
func TestBusy(t *testing.T) {
	in(t, func(t *testing.T, l *Leader, followers *atomic.Int32) {
		r := l.Begin()
		l.Busy(r)
		wantFollowers(t, followers, 1)
		l.Busy(r) // no effect: this goroutine leads no more
		wantFollowers(t, followers, 1)
		if l.Current() != 0 {
			t.Error("the new leader does not receive")
		}
		other := l.Begin()
		pass(Tick)
		wantEnd(t, l, r, false)
		wantEnd(t, l, other, true)
		pass(10 * Tick)
		wantFollowers(t, followers, 1)
		if l.Backoff.Active() {
			t.Error("requests are passed over")
		}
		if got, want := l.Counts(), (Counts{Ran: 2, Busy: 1}); got != want {
			t.Errorf("counts %+v, want %+v", got, want)
		}
	})
}

// If several leaders in a row run slow requests, the clock finds each of them.
func TestSlowRequestsInARow(t *testing.T) {
	in(t, func(t *testing.T, l *Leader, followers *atomic.Int32) {
		var slow []Run
		for n := range int32(5) {
			slow = append(slow, l.Begin())
			pass(3 * Tick)
			wantFollowers(t, followers, n+1)
		}
		for _, r := range slow {
			wantEnd(t, l, r, false)
		}
	})
}

// The steady state allocates nothing.
func TestAllocs(t *testing.T) {
	var l Leader
	l.Init(NewClock(time.Hour), func() {})
	var row Row
	l.End(l.Begin()) // makes the clock's timer
	if n := testing.AllocsPerRun(1000, func() {
		row.Count(false)
		if !l.Backoff.Pass() && row.Alone() {
			l.End(l.Begin())
		}
	}); n != 0 {
		t.Errorf("%v allocations for each request, want 0", n)
	}
	l.clock.timer.Stop()
}
