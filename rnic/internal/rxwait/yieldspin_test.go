// How long a Blocker spins with yields, and when that is refused.

package rxwait

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A stepping is a clock that advances by step at each poll for input; poll number at finds input.
type stepping struct {
	now   time.Time
	step  time.Duration
	at    int
	polls int
}

func (s *stepping) time() time.Time { return s.now }
func (s *stepping) found() bool {
	s.now = s.now.Add(s.step)
	s.polls++
	return s.polls == s.at
}

// passed returns the number of spins that t refuses before it allows one.
func passed(t *yieldSpin) (n int) {
	for ; t.Pass(); n++ {
	}
	return n
}

// TestYieldSpin: a spin has a bounded time. A spin without input is a miss, and input in time ends
// the row of misses.
func TestYieldSpin(t *testing.T) {
	var l yieldSpin
	for _, want := range []int{0, 1, 3} {
		if n := passed(&l); n != want {
			t.Fatalf("%d spins are refused, want %d", n, want)
		}
		s := stepping{step: time.Microsecond}
		if l.spin(s.time, s.found) || s.polls != int(yieldSpinTime/s.step) {
			t.Fatalf("%d reads, want %d, and no input", s.polls, yieldSpinTime/s.step)
		}
	}
	passed(&l)
	s := stepping{step: yieldSpinTime / 4, at: 3}
	if !l.spin(s.time, s.found) || s.polls != 3 {
		t.Errorf("%d reads before input is found, want 3", s.polls)
	}
	if n := passed(&l); n != 0 {
		t.Errorf("%d spins are refused after input in time, want 0", n)
	}
	if s = (stepping{step: yieldSpinTime}); l.spin(s.time, s.found) || passed(&l) != 1 {
		t.Error("input in time has not ended the row of misses")
	}
}

// TestYieldSpinPreempted: after a long yield the next spin is refused, even if input came
// meanwhile.
func TestYieldSpinPreempted(t *testing.T) {
	for at := range 2 {
		var l yieldSpin
		s := stepping{step: yieldPreempted, at: at}
		if l.spin(s.time, s.found) != (at == 1) || s.polls != 1 {
			t.Errorf("input at read %d: %d reads, want 1", at, s.polls)
		}
		if n := passed(&l); n != 1 {
			t.Errorf("input at read %d: %d spins are refused after that, want 1", at, n)
		}
	}
}

// TestBlockAfterYieldSpin: a Blocker finds input while it spins, and later input while it is
// blocked.
func TestBlockAfterYieldSpin(t *testing.T) {
	s := blocker(t)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatalf("Pipe2: %v", err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	for !s.yieldSpin.Active() { // the machine may stand still, so that blocks are refused
		s.backoff.Skip(0)
		if s.Block(pipe[0]) {
			t.Fatal("found something")
		}
	}
	if _, err := unix.Write(pipe[1], []byte{1}); err != nil {
		t.Fatalf("Write: %v", err)
	}
	for _, pass := range []int{1, 0} {
		s.backoff.Skip(0)
		s.yieldSpin = yieldSpin{}
		s.yieldSpin.Skip(pass)
		if !s.Block(pipe[0]) {
			t.Fatal("found nothing")
		}
		if got := s.yieldSpin.Passed(); got != uint64(pass) {
			t.Errorf("%d spins were refused, want %d", got, pass)
		}
	}
}
