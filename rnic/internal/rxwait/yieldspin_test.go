// How long a Blocker looks before it sleeps, and when it gives that up.

package rxwait

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A stepping is a clock that goes on by step at each look; there is input at look number at.
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

// passed is how often t does not look before it would.
func passed(t *yieldSpin) (n int) {
	for ; t.Pass(); n++ {
	}
	return n
}

// It looks for a bounded time. One that nothing comes in is a miss, and input in time ends the row
// of them.
func TestYieldSpin(t *testing.T) {
	var l yieldSpin
	for _, want := range []int{0, 1, 3} {
		if n := passed(&l); n != want {
			t.Fatalf("%d times without a look, want %d", n, want)
		}
		s := stepping{step: time.Microsecond}
		if l.spin(s.time, s.found) || s.polls != int(yieldSpinTime/s.step) {
			t.Fatalf("%d looks", s.polls)
		}
	}
	passed(&l)
	s := stepping{step: yieldSpinTime / 4, at: 3}
	if !l.spin(s.time, s.found) || s.polls != 3 || passed(&l) != 0 {
		t.Errorf("%d looks", s.polls)
	}
	if s = (stepping{step: yieldSpinTime}); l.spin(s.time, s.found) || passed(&l) != 1 {
		t.Error("input in time has not ended the row of those in vain")
	}
}

// Where others have the processor for long it is rather slept, even if there was input then.
func TestYieldSpinPreempted(t *testing.T) {
	for at := range 2 {
		var l yieldSpin
		s := stepping{step: yieldPreempted, at: at}
		if l.spin(s.time, s.found) != (at == 1) || s.polls != 1 || passed(&l) != 1 {
			t.Errorf("input %d: %d looks", at, s.polls)
		}
	}
}

// A Blocker finds what is there while it looks, and what comes only when it sleeps.
func TestBlockAfterYieldSpin(t *testing.T) {
	s := blocker(t)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	for !s.yieldSpin.Active() { // the machine may stand still, so that it sleeps no more
		s.backoff.Skip(0)
		if s.Block(pipe[0]) {
			t.Fatal("found something")
		}
	}
	if _, err := unix.Write(pipe[1], []byte{1}); err != nil {
		t.Fatal(err)
	}
	for _, pass := range []int{1, 0} {
		s.backoff.Skip(0)
		s.yieldSpin = yieldSpin{}
		s.yieldSpin.Skip(pass)
		if !s.Block(pipe[0]) {
			t.Fatal("found nothing")
		}
		if got := s.yieldSpin.Passed(); got != uint64(pass) {
			t.Errorf("turns are passed over %d times, want %d", got, pass)
		}
	}
}
