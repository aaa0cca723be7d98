// How long a Sleeper looks before it sleeps, and when it gives that up.

package look

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
	looks int
}

func (s *stepping) time() time.Time { return s.now }
func (s *stepping) found() bool {
	s.now = s.now.Add(s.step)
	s.looks++
	return s.looks == s.at
}

// passed is how often t does not look before it would.
func passed(t *turns) (n int) {
	for ; t.Pass(); n++ {
	}
	return n
}

// It looks for a bounded time. One that nothing comes in is a miss, and input in time ends the row
// of them.
func TestTurns(t *testing.T) {
	var l turns
	for _, want := range []int{0, 1, 3} {
		if n := passed(&l); n != want {
			t.Fatalf("%d times without a look, want %d", n, want)
		}
		s := stepping{step: time.Microsecond}
		if l.look(s.time, s.found) || s.looks != int(turnsTime/s.step) {
			t.Fatalf("%d looks", s.looks)
		}
	}
	passed(&l)
	s := stepping{step: turnsTime / 4, at: 3}
	if !l.look(s.time, s.found) || s.looks != 3 || passed(&l) != 0 {
		t.Errorf("%d looks", s.looks)
	}
	if s = (stepping{step: turnsTime}); l.look(s.time, s.found) || passed(&l) != 1 {
		t.Error("input in time has not ended the row of those in vain")
	}
}

// Where others have the processor for long it is rather slept, even if there was input then.
func TestTurnsOfOthers(t *testing.T) {
	for at := range 2 {
		var l turns
		s := stepping{step: turnsAway, at: at}
		if l.look(s.time, s.found) != (at == 1) || s.looks != 1 || passed(&l) != 1 {
			t.Errorf("input %d: %d looks", at, s.looks)
		}
	}
}

// A Sleeper finds what is there while it looks, and what comes only when it sleeps.
func TestSleepAfterTurns(t *testing.T) {
	s := sleeper(t)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	for !s.turns.Active() { // the machine may stand still, so that it sleeps no more
		s.backoff.Skip(0)
		if s.Sleep(pipe[0]) {
			t.Fatal("found something")
		}
	}
	if _, err := unix.Write(pipe[1], []byte{1}); err != nil {
		t.Fatal(err)
	}
	for _, pass := range []int{1, 0} {
		s.backoff.Skip(0)
		s.turns = turns{}
		s.turns.Skip(pass)
		if !s.Sleep(pipe[0]) {
			t.Fatal("found nothing")
		}
		if got := s.turns.Passed(); got != uint64(pass) {
			t.Errorf("turns are passed over %d times, want %d", got, pass)
		}
	}
}
