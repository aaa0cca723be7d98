// Blocking: the thread of a receiver waits in the kernel for input that is about to come.

package rxwait

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
	"golang.org/x/sys/unix"
)

// A Blocker makes a receiver that found nothing block its thread in ppoll(2) for a while. Parking
// the goroutine instead takes Go's scheduler more than twice as long as the kernel takes to put a
// thread to sleep and to wake it: the scheduler looks for other goroutines, and wakes threads to
// run them. Unlike a spin, a blocked thread takes no processor from other threads.
//
// A blocked thread keeps one of the scheduler's processors (GOMAXPROCS). So blocking is for a peer
// that makes one call after the other, while no other receiver has input. At most half of the
// processors are kept, those of spinning receivers included. If input does not come soon, a backoff
// makes blocks rarer.
//
// Inputs of large transfers do not count as other receivers' input: a parked goroutine would wait
// for a processor after them, while the kernel prefers a thread that has slept. But next to large
// transfers, which need the processors too, a block pays only if input comes sooner.
type Blocker struct {
	most        limit         // of spinning; set once
	in          *Inputs       // of the receivers beside this one; set once
	fd          int           // the descriptor of the current block
	pfd         unix.PollFd   // memory for ppoll's descriptor
	time        unix.Timespec // memory for ppoll's timeout
	own         uint64        // inputs of this receiver
	others      uint64        // small inputs of other receivers, when may last counted them
	large       uint64        // large inputs, when soon last counted them
	besideLarge wait.Backoff  // active for some blocks after a large input
	backoff     wait.Backoff
	yieldSpin   yieldSpin
	mask        pollerMask
	tally       tally.Counter
}

// Inputs counts the inputs of receivers with a Blocker. A Device owns it.
type Inputs struct{ Small, Large atomic.Uint64 } // Large: of large transfers

// AddTo implements tally.Source. A block is won if input came soon, a yield spin if input came
// during the spin, and a mask if the poller's entry can be changed.
func (s *Blocker) AddTo(t tally.Table) {
	t.Add("block", s.tally.Counts())
	t.Add("yield", s.yieldSpin.tally.Counts())
	t.Add("poller_mask", s.mask.tally.Counts())
}

// NewBlocker returns a Blocker that counts in; see [NewSpinner] for its limit.
func NewBlocker(in *Inputs) Blocker { return Blocker{most: halfOfProcs, in: in} }

// Input counts an input of the receiver, or the end of its input.
func (s *Blocker) Input() {
	s.own++
	s.in.Small.Add(1)
}

// LargeInput counts an input of a large transfer.
func (s *Blocker) LargeInput() { s.in.Large.Add(1) }

// Block waits until fd has input or its end, a signal comes, or blockMax has passed. It reports
// whether there is something to read, which can be wrong. If blocking does not pay, Block returns
// false at once. The scheduler does not know of the wait: when it has to stop the goroutine it
// sends a signal, which ends the block.
func (s *Blocker) Block(fd int) bool {
	if !s.may() {
		s.tally.Pass()
		return false
	}
	s.mask.set(fd)
	s.fd = fd
	began := time.Now()
	found := s.yieldSpin.may() && s.yieldSpin.spin(time.Now, s.yieldAndPoll) || s.poll(blockMax)
	s.mask.noteBlock(found)
	s.noteBlock(found && time.Since(began) <= s.soon())
	return found
}

// poll waits at most for the given time, and reports whether there is something to read.
func (s *Blocker) poll(most time.Duration) bool {
	s.pfd = unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN | unix.POLLRDHUP}
	s.time = unix.NsecToTimespec(int64(most))
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&s.pfd)), 1, uintptr(unsafe.Pointer(&s.time)), 0, 0, 0)
	return errno == 0 && n > 0
}

// yieldAndPoll lets other threads run, and then reports whether there is something to read.
func (s *Blocker) yieldAndPoll() bool {
	wait.Yield()
	return s.poll(0)
}

// Unmask must be called before the goroutine parks for fd in the network poller: after some blocks
// the poller gets no event for input. After an error the goroutine MUST NOT park, for no input
// would wake it.
func (s *Blocker) Unmask(fd int) error { return s.mask.clear(fd) }

// soon returns how soon input has to come for a block to pay.
func (s *Blocker) soon() time.Duration {
	if now := s.in.Large.Load(); now != s.large {
		s.large = now
		s.besideLarge.Start()
	}
	if s.besideLarge.Pass() {
		return blockWorthBeside
	}
	return blockWorth
}

// may reports whether to block. If so, it counts the receiver as spinning.
func (s *Blocker) may() bool {
	if s.backoff.Pass() {
		return false
	}
	if others := s.in.Small.Load() - s.own; others != s.others {
		s.others = others
		s.backoff.Start()
		return false
	}
	if spinning.Add(1) > s.most.now() {
		spinning.Add(-1)
		return false
	}
	return true
}

// noteBlock ends a block that may has allowed; soon: input came in time.
func (s *Blocker) noteBlock(soon bool) {
	spinning.Add(-1)
	s.tally.Note(soon)
	s.backoff.Note(soon)
}
