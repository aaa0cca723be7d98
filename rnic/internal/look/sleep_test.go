// How long a receiver sleeps for input, and when it gives that up.

package look

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper is a Sleeper that is alone.
func sleeper(t *testing.T) *Sleeper {
	t.Helper()
	alone(t)
	return &Sleeper{most: one, others: inputs.Load()}
}

// It returns with input and with an end, and without either before long.
func TestSleep(t *testing.T) {
	s := sleeper(t)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	if s.Sleep(pipe[0]) || s.misses != 1 || Lookers() != 0 {
		t.Fatalf("found something; %d misses", s.misses)
	}
	s.pass = 0
	if _, err := unix.Write(pipe[1], []byte{1}); err != nil {
		t.Fatal(err)
	}
	if !s.Sleep(pipe[0]) || Lookers() != 0 {
		t.Fatal("found no input")
	}
	unix.Close(pipe[1])
	if _, err := unix.Read(pipe[0], make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s.pass = 0 // the machine may have stood still meanwhile
	if !s.Sleep(pipe[0]) {
		t.Error("found no end")
	}
	if n := testing.AllocsPerRun(10, func() { s.pass = 0; s.Sleep(pipe[0]) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Input that comes late is input, but no reason to sleep next time.
func TestSleepingForLateInput(t *testing.T) {
	s := sleeper(t)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	for {
		late := time.AfterFunc(sleepTime+time.Millisecond, func() { _, _ = unix.Write(pipe[1], []byte{1}) })
		s.pass, s.misses = 0, 0
		if s.Sleep(pipe[0]) {
			break
		}
		late.Stop() // it was later than the sleep is long
		_ = unix.SetNonblock(pipe[0], true)
		_, _ = unix.Read(pipe[0], make([]byte, 1))
	}
	if s.misses != 1 || s.pass == 0 {
		t.Errorf("%d misses, %d passes", s.misses, s.pass)
	}
}

// refused is how often s does not sleep before it would.
func refused(t *testing.T, s *Sleeper) (n int) {
	t.Helper()
	for ; !s.may(); n++ {
		if n > 1000 {
			t.Fatal("it does not sleep any more")
		}
	}
	return n
}

// Each time in a row that nothing comes it sleeps half as often, up to a bound, and when something
// comes it begins anew.
func TestSleepingForNothingBecomesRare(t *testing.T) {
	s := sleeper(t)
	for _, want := range []int{0, 1, 3, 7, 15, 31, 63, 127, 255, 255} {
		if n := refused(t, s); n != want {
			t.Fatalf("%d times without sleeping, want %d", n, want)
		}
		s.woke(false)
	}
	refused(t, s)
	s.woke(true)
	if n := refused(t, s); n != 0 {
		t.Errorf("%d times without sleeping after input came", n)
	}
}

// Where others have input there is work for the processor that it would keep.
func TestNobodySleepsBesideOthers(t *testing.T) {
	s, other := sleeper(t), Sleeper{}
	refused(t, s)
	s.woke(true)
	s.Input()
	if n := refused(t, s); n != 0 {
		t.Fatalf("%d times without sleeping after input of its own", n)
	}
	s.woke(true)
	other.Input()
	if n := refused(t, s); n != 1+sleepPasses {
		t.Errorf("%d times without sleeping after input of another, want %d", n, 1+sleepPasses)
	}
}

// Sleepers and lookers together keep no more processors than are meant to be kept.
func TestSleepersAreLookers(t *testing.T) {
	s, other := sleeper(t), Sleeper{most: one, others: inputs.Load()}
	if !s.may() || other.may() || (&Sleeper{others: inputs.Load()}).may() {
		t.Fatal("two sleep where one is meant to, or one where nobody is")
	}
	s.woke(true)
	if !other.may() {
		t.Error("who woke has made no room")
	}
}

// Inputs of large transfers do not keep a receiver from sleeping, but for some sleeps after one
// what it sleeps for has to come sooner.
func TestSleepingBesideLargeTransfers(t *testing.T) {
	s := sleeper(t)
	s.moved = moves.Load()
	for range 2 {
		if d := s.soon(); d != sleepTime {
			t.Fatalf("alone it is worth sleeping for %v", d)
		}
		Moved()
		if n := refused(t, s); n != 0 {
			t.Fatalf("%d times without sleeping beside a large transfer", n)
		}
		s.woke(true)
		for range besideSleeps {
			if d := s.soon(); d != sleepBeside {
				t.Fatalf("beside a large transfer it is worth sleeping for %v", d)
			}
		}
	}
}
