// The Completion Queue and its upcall.

package rnic

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// A CQ collects the completions of the queues of one or more QPs. Its methods
// may be called from any goroutine.
type CQ struct {
	depth int // set once

	mu    sync.Mutex
	ring  []WC // guarded by mu; grows past depth only while an overrun QP flushes
	head  int
	count int
	idle  int // how many wait in Wait

	wake    chan struct{} // one token: the CQ may be not empty
	handler atomic.Pointer[func()]
	fresh   atomic.Bool  // completions were added since the handler last began
	turn    atomic.Int32 // handlerIdle, handlerRuns, handlerAgain
}

// The turns of a CQ's handler.
const (
	handlerIdle int32 = iota
	handlerRuns
	handlerAgain // it runs, and has to run again
)

// firstRing is how many completions a CQ has room for before it grows: many are never busy.
const firstRing = 8

// ErrCQOverrun ends a QP whose completion found no room in the CQ (RFC 5040 §8.1.1).
var ErrCQOverrun = errors.New("rnic: completion queue overrun")

// NewCQ returns a completion queue that holds depth completions. It never
// loses one: a QP that completes more than there is room for fails with
// ErrCQOverrun, and what it flushes is kept.
func (d *Device) NewCQ(depth int) *CQ {
	depth = max(depth, 1)
	return &CQ{depth: depth, ring: make([]WC, min(depth, firstRing)), wake: make(chan struct{}, 1)}
}

// push adds one completion and reports whether it was within the depth.
func (cq *CQ) push(wc WC) bool {
	cq.mu.Lock()
	if cq.count == len(cq.ring) {
		cq.grow()
	}
	i := cq.head + cq.count
	if i >= len(cq.ring) {
		i -= len(cq.ring)
	}
	cq.ring[i] = wc
	cq.count++
	fits := cq.count <= cq.depth
	waiting := cq.idle > 0
	cq.fresh.Store(true)
	cq.mu.Unlock()
	if waiting {
		cq.signal()
	}
	return fits
}

// grow doubles the ring. The caller holds mu.
func (cq *CQ) grow() {
	ring := make([]WC, 2*len(cq.ring))
	n := copy(ring, cq.ring[cq.head:])
	copy(ring[n:], cq.ring[:cq.head])
	cq.ring, cq.head = ring, 0
}

// Poll moves up to len(wcs) completions to wcs.
func (cq *CQ) Poll(wcs []WC) int {
	cq.mu.Lock()
	n := min(len(wcs), cq.count)
	for i := range n {
		wcs[i] = cq.ring[cq.head]
		cq.ring[cq.head] = WC{}
		if cq.head++; cq.head == len(cq.ring) {
			cq.head = 0
		}
	}
	cq.count -= n
	cq.mu.Unlock()
	return n
}

// SetHandler has f called after completions were added, with no lock held, at
// most one call at a time per CQ; none is lost. It runs on the receive loop or
// the transmit loop of a QP, never inside PostSend. It must poll until the CQ is
// empty, must not block and must not call Close or Disconnect (Abort is
// fine). f may post: posts made while a handler runs on the receive loop
// of their QP leave in one batch when f returns.
func (cq *CQ) SetHandler(f func()) {
	cq.handler.Store(&f)
	cq.notify()
}

// notify runs the handler when completions were added since it last began, or
// tells the goroutine that runs it to do so again. It reports whether it ran. No lock may be held.
func (cq *CQ) notify() bool {
	f := cq.handler.Load()
	if f == nil || !cq.fresh.Swap(false) {
		return false
	}
	for {
		if cq.turn.CompareAndSwap(handlerIdle, handlerRuns) {
			break
		}
		if cq.turn.CompareAndSwap(handlerRuns, handlerAgain) || cq.turn.Load() == handlerAgain {
			return false
		}
	}
	for {
		(*f)()
		if cq.turn.CompareAndSwap(handlerRuns, handlerIdle) {
			return true
		}
		cq.turn.Store(handlerRuns)
	}
}

func (cq *CQ) signal() {
	select {
	case cq.wake <- struct{}{}:
	default:
	}
}

// Wait blocks until the CQ is not empty, for programs that set no handler.
func (cq *CQ) Wait(ctx context.Context) error {
	cq.mu.Lock()
	cq.idle++
	for cq.count == 0 {
		cq.mu.Unlock()
		var err error
		select {
		case <-cq.wake:
		case <-ctx.Done():
			err = ctx.Err()
		}
		cq.mu.Lock()
		if err != nil && cq.count == 0 {
			cq.idle--
			cq.mu.Unlock()
			return err
		}
	}
	cq.idle--
	again := cq.idle > 0 // there may be enough for another one
	cq.mu.Unlock()
	if again {
		cq.signal()
	}
	return nil
}

// owes reports whether completions wait for a handler that nobody is going to run.
func (cq *CQ) owes() bool {
	if !cq.fresh.Load() || cq.handler.Load() == nil {
		return false
	}
	return !cq.turn.CompareAndSwap(handlerRuns, handlerAgain) && cq.turn.Load() == handlerIdle
}
