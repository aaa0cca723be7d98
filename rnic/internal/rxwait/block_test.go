// How long a thread blocks for input, and when that is refused.

package rxwait

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/wait"
	"golang.org/x/sys/unix"
)

// blocker returns a Blocker in a process without other receivers.
func blocker(t *testing.T) *Blocker {
	t.Helper()
	alone(t)
	return &Blocker{most: one, in: new(Inputs)}
}

// TestBlock: a block ends with input, with the end of the input, and without either after blockMax.
func TestBlock(t *testing.T) {
	s := blocker(t)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatalf("Pipe2: %v", err)
	}
	defer unix.Close(pipe[0])
	if s.Block(pipe[0]) || Spinning() != 0 {
		t.Fatal("found something")
	}
	if n := refused(t, s); n != 1 {
		t.Fatalf("%d blocks are refused after one in vain, want 1", n)
	}
	s.noteBlock(true)
	if _, err := unix.Write(pipe[1], []byte{1}); err != nil {
		t.Fatalf("Write: %v", err)
	}
	if !s.Block(pipe[0]) || Spinning() != 0 {
		t.Fatal("found no input")
	}
	unix.Close(pipe[1])
	if _, err := unix.Read(pipe[0], make([]byte, 1)); err != nil {
		t.Fatalf("Read: %v", err)
	}
	s.backoff.Skip(0) // the machine may have stood still meanwhile
	if !s.Block(pipe[0]) {
		t.Error("found no end")
	}
	if n := testing.AllocsPerRun(10, func() { s.backoff.Skip(0); s.Block(pipe[0]) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestBlockForLateInput: a block that ends with late input has found input, but the next block is
// refused.
func TestBlockForLateInput(t *testing.T) {
	s := blocker(t)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatalf("Pipe2: %v", err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	for {
		late := time.AfterFunc(blockWorth+time.Millisecond, func() { _, _ = unix.Write(pipe[1], []byte{1}) })
		s.backoff = wait.Backoff{}
		if s.Block(pipe[0]) {
			break
		}
		late.Stop() // it was later than blockMax
		_ = unix.SetNonblock(pipe[0], true)
		_, _ = unix.Read(pipe[0], make([]byte, 1))
	}
	if n := refused(t, s); n != 1 {
		t.Errorf("%d blocks are refused after late input, want 1", n)
	}
}

// refused returns the number of blocks that s refuses before it allows one.
func refused(t *testing.T, s *Blocker) (n int) {
	t.Helper()
	for ; !s.may(); n++ {
		if n > 1000 {
			t.Fatal("a thousand blocks are refused")
		}
	}
	return n
}

// TestBlockBesideOthers: after input of other receivers blocks are refused, because that input is
// work for the processor that a block would keep.
func TestBlockBesideOthers(t *testing.T) {
	s := blocker(t)
	other := Blocker{in: s.in}
	refused(t, s)
	s.noteBlock(true)
	s.Input()
	if n := refused(t, s); n != 0 {
		t.Fatalf("%d blocks are refused after input of its own, want 0", n)
	}
	s.noteBlock(true)
	other.Input()
	if n := refused(t, s); n != 1+wait.Passes {
		t.Errorf("%d blocks are refused after input of another, want %d", n, 1+wait.Passes)
	}
}

// Blocked and spinning receivers together keep no more processors than the limit.
func TestBlockersCountAsSpinners(t *testing.T) {
	s := blocker(t)
	other := Blocker{most: one, in: s.in}
	if !s.may() || other.may() {
		t.Fatal("none or two block at a limit of one")
	}
	if (&Blocker{in: s.in}).may() {
		t.Fatal("one blocks at no limit")
	}
	s.noteBlock(true)
	if !other.may() {
		t.Error("the end of a block has made no room")
	}
}

// TestBlockBesideLargeTransfers: input of a large transfer refuses no block. But for some blocks
// after it, other input has to come sooner.
func TestBlockBesideLargeTransfers(t *testing.T) {
	s := blocker(t)
	for range 2 {
		if d := s.soon(); d != blockWorth {
			t.Fatalf("alone input has to come within %v, want %v", d, blockWorth)
		}
		s.LargeInput()
		if n := refused(t, s); n != 0 {
			t.Fatalf("%d blocks are refused beside a large transfer, want 0", n)
		}
		s.noteBlock(true)
		for range wait.Passes {
			if d := s.soon(); d != blockWorthBeside {
				t.Fatalf("beside a large transfer input has to come within %v, want %v", d, blockWorthBeside)
			}
		}
	}
}
