// The Completion Queue and its handler, and how a provider completes work.

package rnic

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A CQ collects completions from the queues of one or more QPs. Any goroutine may call its methods.
type CQ struct {
	depth int // set once

	mu    sync.Mutex
	ring  []WC // guarded by mu; grows past depth only while an overrun QP flushes
	head  int
	count int
	idle  int // number of goroutines in Wait

	batches int  // guarded by mu; batches of providers that run: their waiters are woken at the end
	late    bool // guarded by mu; a batch has completed work that a goroutine in Wait waits for

	wake    chan struct{} // one token: the CQ may be not empty
	handler atomic.Pointer[func() (leads bool)]
	fresh   atomic.Bool   // completions were added since the handler last began; cleared by the turn's owner
	due     atomic.Bool   // undeferred completions came; set after fresh, cleared before fresh
	woken   atomic.Bool   // a goroutine in Wait has been woken; see ProviderQP.Woken
	turn    atomic.Int32  // handlerIdle, handlerRuns, handlerAgain; written by pass alone
	rounds  atomic.Uint32 // how often the handler has ended

	// follow is the rest of the work of the turn's owner, after the turn; nil: no other goroutine
	// can take over. The field belongs to the turn's owner.
	follow func()

	onTurn func(from, to int32) // not nil in tests: called for each change of turn (an arrow of the drawing below)
}

// The turn of a CQ's handler. One goroutine owns the turn while the turn is not idle. The owner can
// change inside a call of the handler: another goroutine enters by Follow, and the former owner
// leaves without a further look at the CQ. The turn itself stays as it is meanwhile, so nothing is
// lost.
//
//	              notify                    notify, owes
//	┌────────┐ ─────────► ┌────────────┐ ────────────────► ┌─────────┐
//	│  idle  │            │    runs    │                   │  again  │
//	└────────┘ ◄───────── └────────────┘ ◄──────────────── └─────────┘
//	     the handler ends  │          ▲  the handler ends   │       ▲
//	                       └──────────┘                     └───────┘
//	                          Follow                          Follow
const (
	handlerIdle int32 = iota
	handlerRuns
	handlerAgain // the handler runs, and has to run again
	turns
)

// turnNext[t] holds the states that can follow t, as drawn above; Follow changes no state.
var turnNext = [turns][]int32{
	handlerIdle:  {handlerRuns},
	handlerRuns:  {handlerAgain, handlerIdle},
	handlerAgain: {handlerRuns},
}

// pass changes the turn from one state to another, and reports false if the turn is not in state
// from.
func (cq *CQ) pass(from, to int32) bool {
	if !cq.turn.CompareAndSwap(from, to) {
		return false
	}
	if cq.onTurn != nil {
		cq.onTurn(from, to)
	}
	return true
}

// firstRing is how many completions a new CQ has room for. It is small because many CQs are never
// busy; the ring grows.
const firstRing = 8

// ErrCQOverrun ends a QP when its completion finds no room in the CQ (RFC 5040 §8.1.1).
var ErrCQOverrun = errors.New("rnic: completion queue overrun")

// NewCQ returns a completion queue for depth completions. No completion is ever lost: a QP that
// completes more fails with ErrCQOverrun, and its flushed completions are kept.
func (d *Device) NewCQ(depth int) *CQ {
	depth = max(depth, 1)
	return &CQ{depth: depth, ring: make([]WC, min(depth, firstRing)), wake: make(chan struct{}, 1)}
}

// push adds one completion and reports whether it was within the depth. due: a handler must be
// notified soon.
func (cq *CQ) push(wc WC, due bool) bool {
	cq.mu.Lock()
	fits := cq.put(&wc)
	wakes := cq.added(due)
	cq.mu.Unlock()
	if wakes {
		cq.wakeWaiter()
	}
	return fits
}

// put is push with mu held. The caller then calls added once for all its completions.
func (cq *CQ) put(wc *WC) (fits bool) {
	if cq.count == len(cq.ring) {
		cq.grow()
	}
	i := cq.head + cq.count
	if i >= len(cq.ring) {
		i -= len(cq.ring)
	}
	cq.ring[i] = *wc
	cq.count++
	return cq.count <= cq.depth
}

// added records new completions. If it returns true, the caller must call wakeWaiter after it
// unlocks mu. The caller holds mu.
func (cq *CQ) added(due bool) (wakes bool) {
	waiting := cq.idle > 0
	if cq.batches > 0 {
		cq.late, waiting = cq.late || waiting, false
	}
	cq.fresh.Store(true)
	if due {
		cq.due.Store(true)
	}
	return waiting
}

// wakeWaiter wakes a goroutine that waits for completions.
func (cq *CQ) wakeWaiter() {
	cq.woken.Store(true)
	cq.signal()
}

// grow doubles the ring. The caller holds mu.
func (cq *CQ) grow() {
	ring := make([]WC, 2*len(cq.ring))
	n := copy(ring, cq.ring[cq.head:])
	copy(ring[n:], cq.ring[:cq.head])
	cq.ring, cq.head = ring, 0
}

// Poll moves up to len(wcs) completions to wcs and returns their number.
func (cq *CQ) Poll(wcs []WC) int {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	n := min(len(wcs), cq.count)
	for i := range n {
		wcs[i] = cq.ring[cq.head]
		cq.ring[cq.head] = WC{}
		if cq.head++; cq.head == len(cq.ring) {
			cq.head = 0
		}
	}
	cq.count -= n
	return n
}

// SetHandler makes the CQ call f after completions were added, with no lock held, at most one call
// at a time per CQ; no completion is lost. f runs on the receive loop or the transmit loop of a QP,
// or inside PollUntil, never inside PostSend. f must poll until the CQ is empty, must not block and
// must not call Close or Disconnect (Abort is fine). f may post: posts made while a handler runs on
// the receive loop of their QP leave in one batch when f returns.
func (cq *CQ) SetHandler(f func()) {
	cq.SetLeader(func() bool { f(); return true })
}

// SetLeader is SetHandler with a function that can lose its turn to another goroutine, which calls
// Follow. f then returns false on the former goroutine as soon as it can: before that f may wait,
// but must use nothing that belongs to the turn. Follow may be called while CanFollow reports true.
func (cq *CQ) SetLeader(f func() (leads bool)) {
	cq.handler.Store(&f)
	cq.notify(nil)
}

// CanFollow is for the handler: it reports whether another goroutine can take over the handler's
// turn.
func (cq *CQ) CanFollow() bool { return cq.follow != nil }

// Follow takes over the turn of a handler that returns false, or will. It calls the handler for the
// remaining completions, and then does all the other work of the former goroutine: if that
// goroutine received, Follow receives until the QP ends or its own turn is taken over. Follow is
// called once for each false.
func (cq *CQ) Follow() {
	follow := cq.follow // another goroutine can have the next turn
	if _, leads := cq.runTurn(true); leads {
		follow()
	}
}

// notify runs the handler if completions were added since the handler last began. If another
// goroutine runs the handler, notify makes that one run it again. ran: notify ran the handler
// itself. leads is false if the turn was taken over, and follow has the rest of the caller's work.
// No lock may be held.
func (cq *CQ) notify(follow func()) (ran, leads bool) {
	if cq.handler.Load() == nil || !cq.fresh.Load() {
		return false, true
	}
	for !cq.pass(handlerIdle, handlerRuns) {
		if cq.pass(handlerRuns, handlerAgain) || cq.turn.Load() == handlerAgain {
			return false, true
		}
	}
	cq.follow = follow
	return cq.runTurn(false)
}

// runTurn calls the handler until no new completions are left, and ends the turn, which the caller
// owns. begun: a call of the handler has begun already.
func (cq *CQ) runTurn(begun bool) (ran, leads bool) {
	f := *cq.handler.Load()
	for {
		if !begun {
			cq.due.Store(false) // before fresh: a completion that comes in between is handled now
			begun = cq.fresh.Swap(false)
		}
		if begun {
			ran, begun = true, false
			if !f() {
				return true, false
			}
			cq.rounds.Add(1)
		}
		if cq.pass(handlerRuns, handlerIdle) {
			return ran, true
		}
		cq.pass(handlerAgain, handlerRuns)
	}
}

// handling reports whether a goroutine runs the handler. If it returns false after a notify, the
// handler has had all completions added before that notify, on whichever goroutine: only the turn's
// owner clears fresh.
func (cq *CQ) handling() bool { return cq.turn.Load() != handlerIdle }

// settle returns once the handler has finished all completions added before the call. Another
// goroutine may run the handler in a round that began before the completions came: the next round
// then handles them. The handler MUST NOT call settle.
func (cq *CQ) settle() {
	before := cq.rounds.Load()
	cq.notify(nil)
	for i := 0; cq.handling() && cq.rounds.Load()-before < 2; i++ {
		if i < settleYields {
			runtime.Gosched()
		} else {
			time.Sleep(settleSleep) // a handler does not wait, but the machine may have better things to do than to run it
		}
	}
}

// settle's waiting: most handlers finish at once.
const (
	settleYields = 100
	settleSleep  = 50 * time.Microsecond
)

func (cq *CQ) signal() {
	select {
	case cq.wake <- struct{}{}:
	default:
	}
}

// Wait blocks until the CQ holds completions, for programs without a handler.
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
	again := cq.idle > 0 // another waiter may find completions too
	cq.mu.Unlock()
	if again {
		cq.signal()
	}
	return nil
}

// owes reports whether completions wait for a handler that no goroutine is going to run.
func (cq *CQ) owes() bool {
	if !cq.due.Load() || cq.handler.Load() == nil {
		return false
	}
	return !cq.pass(handlerRuns, handlerAgain) && cq.turn.Load() == handlerIdle
}

// CompleteRecv adds a completion to the receive CQ, as SendQueue.Retire does for sends. Both report
// whether the CQ had room within its depth; if not, the QP must end with ErrCQOverrun.
func (q *ProviderQP) CompleteRecv(wc WC) bool { wc.QP = (*QP)(q); return q.recvCQ.push(wc, true) }

// Notify runs the handlers of the CQs with new completions, and reports whether any ran. The caller
// holds no lock, and is a goroutine of the provider or in PollUntil.
func (q *ProviderQP) Notify() bool {
	ran, _ := q.recvCQ.notify(nil)
	sends, _ := q.sendCQ.notify(nil)
	return ran || sends
}

// Lead is Notify for a goroutine that can be followed: leads is false if another goroutine has
// taken over the handler's turn. The new goroutine calls follow after the handler, for the rest of
// the caller's work; the caller only returns. A QP with two CQs is not followed.
func (q *ProviderQP) Lead(follow func()) (ran, leads bool) {
	if q.recvCQ != q.sendCQ {
		return q.Notify(), true
	}
	return q.recvCQ.notify(follow)
}

// NotifySends is Notify for the send CQ alone.
func (q *ProviderQP) NotifySends() { q.sendCQ.notify(nil) }

// Woken reports whether completions have woken a goroutine in CQ.Wait since the last call. An idle
// receiver of the provider then yields the processor to it.
func (q *ProviderQP) Woken() bool {
	woken := q.recvCQ.woken.Load() && q.recvCQ.woken.Swap(false)
	return q.sendCQ.woken.Load() && q.sendCQ.woken.Swap(false) || woken
}

// Handling reports whether any goroutine runs a handler of the CQs. Once it returns false after a
// Notify by the caller, the handlers have had all completions before that Notify.
func (q *ProviderQP) Handling() bool { return q.recvCQ.handling() || q.sendCQ.handling() }

// OwesNotify reports whether send completions, not only deferred ones, wait for a Notify that no
// goroutine is going to make.
func (q *ProviderQP) OwesNotify() bool { return q.sendCQ.owes() }

// BeginBatch defers the wake-ups of goroutines in Wait until EndBatch, so that a batch of
// completions wakes them once. After true the caller MUST call EndBatch, within microseconds.
func (q *ProviderQP) BeginBatch() bool {
	cq := q.sendCQ
	if cq.handler.Load() != nil {
		return false
	}
	cq.mu.Lock()
	cq.batches++
	cq.mu.Unlock()
	return true
}

// EndBatch ends a batch begun by BeginBatch, and reports whether it has woken a goroutine. The
// caller holds no lock.
func (q *ProviderQP) EndBatch() (woken bool) {
	cq := q.sendCQ
	cq.mu.Lock()
	cq.batches--
	if woken = cq.late && cq.batches == 0; woken {
		cq.late = false
	}
	cq.mu.Unlock()
	if woken {
		cq.wakeWaiter()
	}
	return woken
}
