// Sleeping in the kernel for what is about to come.

package rxwait

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
	"golang.org/x/sys/unix"
)

// A Blocker has the thread of a receiver that has found nothing sleep for its descriptor, for a
// while. To park the goroutine instead, and to run it again, is work for Go's scheduler, which
// looks for other goroutines each time, wakes threads for that, and its monitor thread with them:
// more than twice what it takes the kernel to put a thread to sleep and to wake it. And unlike one
// that looks, a thread that sleeps takes the processor from nobody.
//
// But it keeps one of the scheduler's processors (GOMAXPROCS), so that goroutines that are ready
// have to do with the others. So it is for a peer that makes one call after the other, where that
// is all that goes on: a receiver that has woken nobody, while no other one has input. Half of the
// processors at most are kept, by lookers too; and where nothing comes soon, it sleeps more and
// more seldom.
//
// Receivers of large transfers are no such others: what they have to do takes long, and small calls
// would wait for it. A goroutine that parks gives its thread to a transfer, and once all processors
// of the scheduler have one, nobody waits for the next call. The kernel prefers a thread that has
// slept to those that have not. But what comes must then come sooner: transfers need the processor,
// too.
type Blocker struct {
	most        limit         // set once: of lookers and sleepers
	fd          int           // of the sleep
	pfd         unix.PollFd   // memory of a system call
	time        unix.Timespec // the same
	own         uint64        // inputs of this receiver
	others      uint64        // those of all others, when it was about to sleep last
	large       uint64        // inputs of large transfers, then
	besideLarge wait.Backoff  // how often it sleeps until it is no longer taken to be beside large transfers
	backoff     wait.Backoff  // how often it does not sleep from now on
	yieldSpin   yieldSpin
	mask        pollerMask
	tally       tally.Counter
}

// inputs is how often receivers that have a Blocker have got input.
var smallInputs atomic.Uint64

// Inputs is how often they have, but for those of large transfers.
func SmallInputs() uint64 { return smallInputs.Load() }

// moves is how often receivers have got input of large transfers.
var largeInputs atomic.Uint64

// Moved counts an input of a large transfer.
func LargeInput() { largeInputs.Add(1) }

const (
	// blockMax is how long it sleeps at most, and so keeps a processor. It is longer than a tick
	// of the kernel (4 ms where there are 250 in a second): a timer that comes before the next tick
	// has to be set in the hardware, and taken back, which takes a virtual machine 8 us each time
	// it sleeps.
	blockMax = 5 * time.Millisecond

	// blockWorth is how long it is worth sleeping for: longer than what most programs do between two
	// calls, and a server for one.
	blockWorth = 250 * time.Microsecond

	// blockWorthBeside is the same beside large transfers: what a client of this machine does between
	// two calls, when it has a processor.
	blockWorthBeside = 100 * time.Microsecond
)

// AddTo implements tally.Source. A sleep is won where input came soon, turns where it came during
// them, and a mute where the poller's entry can be changed.
func (s *Blocker) AddTo(t tally.Table) {
	t.Add("sleep", s.tally.Counts())
	t.Add("turns", s.yieldSpin.tally.Counts())
	t.Add("mute", s.mask.tally.Counts())
}

// NewBlocker is ready to sleep; see New.
func NewBlocker() Blocker { return Blocker{most: halfOfProcs} }

// Input counts an input of the receiver, or the end of it.
func (s *Blocker) Input() {
	s.own++
	smallInputs.Add(1)
}

// Sleep waits until fd has input, or its end, or a signal comes, for blockMax at most. It reports
// whether there is something to be read, which can be wrong; where it does not pay it reports false
// at once. The scheduler does not know of the wait; to stop the goroutine it sends a signal, as to
// any that does not give way.
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

// poll waits for as long as most, and reports whether there is something to be read.
func (s *Blocker) poll(most time.Duration) bool {
	s.pfd = unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN | unix.POLLRDHUP}
	s.time = unix.NsecToTimespec(int64(most))
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&s.pfd)), 1, uintptr(unsafe.Pointer(&s.time)), 0, 0, 0)
	return errno == 0 && n > 0
}

// looks is poll after a turn of others.
func (s *Blocker) yieldAndPoll() bool {
	wait.Yield()
	return s.poll(0)
}

// Park has to be called before the goroutine waits for fd in the network poller, which is not told
// of input after some sleeps. After an error nobody would wake it.
func (s *Blocker) Unmask(fd int) error { return s.mask.clear(fd) }

// soon is how long it is worth sleeping for.
func (s *Blocker) soon() time.Duration {
	if now := largeInputs.Load(); now != s.large {
		s.large = now
		s.besideLarge.Start()
	}
	if s.besideLarge.Pass() {
		return blockWorthBeside
	}
	return blockWorth
}

// may reports whether to sleep, and counts the sleeper.
func (s *Blocker) may() bool {
	if s.backoff.Pass() {
		return false
	}
	if others := smallInputs.Load() - s.own; others != s.others {
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

// woke ends what may has begun; soon: something has come within blockWorth.
func (s *Blocker) noteBlock(soon bool) {
	spinning.Add(-1)
	s.tally.Note(soon)
	s.backoff.Note(soon)
}
