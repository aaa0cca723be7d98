// The waiter: how the receive side of a stream over TCP waits for input.

package iwarp

import (
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/rnic/internal/rxwait"
)

// A waitState is where a waiter is after a read that found nothing.
type waitState uint8

const (
	waitSpin  waitState = iota // the receiver reads again at once
	waitBlock                  // the thread was blocked in ppoll(2), and there is input
	waitPark                   // the goroutine parks in the network poller
)

// A waiter chooses how a receiver waits after a read that found nothing. It begins with the wait
// that ends soonest after input; a wait that would not pay is skipped (package rxwait).
//
//	         EAGAIN             refused, or over        refused, or in vain
//	┌──────┐ ─────► ┌──────┐ ──────────────────► ┌───────┐ ──────────► ┌──────┐
//	│ read │        │ spin │                     │ block │             │ park │
//	└──────┘        └──────┘                     └───────┘             └──────┘
//	    ▲   at once    │             input           │  input, deadline   │
//	    └──────────────┴─────────────────────────────┴────────────────────┘
type waiter struct {
	// owned with the receive right
	spin  rxwait.Spinner
	block rxwait.Blocker

	large atomic.Int32 // inputs until the stream no longer counts as one of large transfers
}

// next returns the wait after a read of fd that found nothing. keep: the thread may block, and keep
// its processor of Go's scheduler. After an error the goroutine MUST NOT park, because no input
// would wake it.
func (w *waiter) next(fd int, keep bool) (waitState, error) {
	if w.spin.Continue() {
		return waitSpin, nil
	}
	// Large transfers need the processors that a blocked thread would keep.
	if keep && w.large.Load() == 0 && w.block.Block(fd) {
		return waitBlock, nil
	}
	return waitPark, w.block.Unmask(fd)
}

// found records a read of n bytes, or the end of the input. Inputs of large transfers count
// separately, because receivers of small calls block for less time next to them.
func (w *waiter) found(n int) {
	w.spin.Found()
	if w.large.Load() > 0 {
		w.large.Add(-1)
		w.block.LargeInput()
	} else {
		w.block.Input()
	}
	w.note(n)
}

// note records a read or write of n bytes.
func (w *waiter) note(n int) {
	if n >= largeBytes {
		w.large.Store(largeInputs)
	}
}

// AddTo implements tally.Source.
func (w *waiter) AddTo(t tally.Table) {
	w.spin.AddTo(t)
	w.block.AddTo(t)
}
