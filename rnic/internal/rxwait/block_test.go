// How long a receiver sleeps for input, and when it gives that up.

package rxwait

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/wait"
	"golang.org/x/sys/unix"
)

// sleeper is a Blocker that is alone.
func blocker(t *testing.T) *Blocker {
	t.Helper()
	alone(t)
	return &Blocker{most: one, others: smallInputs.Load()}
}

// It returns with input and with an end, and without either before long.
func TestBlock(t *testing.T) {
	s := blocker(t)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	if s.Block(pipe[0]) || Spinning() != 0 {
		t.Fatal("found something")
	}
	if n := refused(t, s); n != 1 {
		t.Fatalf("%d times without sleeping after a sleep in vain, want 1", n)
	}
	s.noteBlock(true)
	if _, err := unix.Write(pipe[1], []byte{1}); err != nil {
		t.Fatal(err)
	}
	if !s.Block(pipe[0]) || Spinning() != 0 {
		t.Fatal("found no input")
	}
	unix.Close(pipe[1])
	if _, err := unix.Read(pipe[0], make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s.backoff.Skip(0) // the machine may have stood still meanwhile
	if !s.Block(pipe[0]) {
		t.Error("found no end")
	}
	if n := testing.AllocsPerRun(10, func() { s.backoff.Skip(0); s.Block(pipe[0]) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Input that comes late is input, but no reason to sleep next time.
func TestBlockForLateInput(t *testing.T) {
	s := blocker(t)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	for {
		late := time.AfterFunc(blockWorth+time.Millisecond, func() { _, _ = unix.Write(pipe[1], []byte{1}) })
		s.backoff = wait.Backoff{}
		if s.Block(pipe[0]) {
			break
		}
		late.Stop() // it was later than the sleep is long
		_ = unix.SetNonblock(pipe[0], true)
		_, _ = unix.Read(pipe[0], make([]byte, 1))
	}
	if n := refused(t, s); n != 1 {
		t.Errorf("%d times without sleeping after late input, want 1", n)
	}
}

// refused is how often s does not sleep before it would.
func refused(t *testing.T, s *Blocker) (n int) {
	t.Helper()
	for ; !s.may(); n++ {
		if n > 1000 {
			t.Fatal("it does not sleep any more")
		}
	}
	return n
}

// Where others have input there is work for the processor that it would keep.
func TestBlockBesideOthers(t *testing.T) {
	s, other := blocker(t), Blocker{}
	refused(t, s)
	s.noteBlock(true)
	s.Input()
	if n := refused(t, s); n != 0 {
		t.Fatalf("%d times without sleeping after input of its own", n)
	}
	s.noteBlock(true)
	other.Input()
	if n := refused(t, s); n != 1+wait.Passes {
		t.Errorf("%d times without sleeping after input of another, want %d", n, 1+wait.Passes)
	}
}

// Sleepers and lookers together keep no more processors than are meant to be kept.
func TestBlockersCountAsSpinners(t *testing.T) {
	s, other := blocker(t), Blocker{most: one, others: smallInputs.Load()}
	if !s.may() || other.may() || (&Blocker{others: smallInputs.Load()}).may() {
		t.Fatal("two sleep where one is meant to, or one where nobody is")
	}
	s.noteBlock(true)
	if !other.may() {
		t.Error("who woke has made no room")
	}
}

// Inputs of large transfers do not keep a receiver from sleeping, but for some sleeps after one
// what it sleeps for has to come sooner.
func TestBlockBesideLargeTransfers(t *testing.T) {
	s := blocker(t)
	s.large = largeInputs.Load()
	for range 2 {
		if d := s.soon(); d != blockWorth {
			t.Fatalf("alone it is worth sleeping for %v", d)
		}
		LargeInput()
		if n := refused(t, s); n != 0 {
			t.Fatalf("%d times without sleeping beside a large transfer", n)
		}
		s.noteBlock(true)
		for range wait.Passes {
			if d := s.soon(); d != blockWorthBeside {
				t.Fatalf("beside a large transfer it is worth sleeping for %v", d)
			}
		}
	}
}
