// The Budget: a process-wide bound on the bytes held for arguments and results.

package mem

import (
	"math/bits"
	"sync"
	"time"
)

// DefaultBudget is the size in bytes shared by connections without another Budget.
const DefaultBudget = 256 << 20

// turnTime is the longest time in which one account is served before all others. The rest after a
// turn, in which all accounts are served alike, lasts as long.
const turnTime = 250 * time.Millisecond

// A Budget bounds the bytes held by all its connections for large arguments and for results. A
// connection's share depends on the free bytes (see fits), so connections keeping their bytes leave
// some for the next.
//
// Arguments wait in a queue. Without a further rule, small requests would take returned bytes
// before there is ever enough for a large one. So the first waiting account without held bytes gets
// a turn, in which no other account receives bytes. A turn ends when the account has been served,
// and after turnTime at the latest: other accounts may hold the rest for long, for example on a
// hung disk, and must not make everyone wait for it.
//
//	        an account that holds nothing waits
//		open ───────────────────────────────────► turn
//		 ▲                                          │ it is served, it leaves, or turnTime
//		 └──────── turnTime ──────── rest ◄─────────┘
//
// In open and in rest accounts are served in order of arrival, if their requests fit.
type Budget struct {
	total int64 // set once

	mu         sync.Mutex // guards all below, and the accounts; no callback runs under it
	free       int64
	queue      []*Account  // waiting accounts, in order of arrival
	queuedEver uint64      // counts how often an account joined the queue
	turn       *Account    // in the queue; nil unless the state is turn
	timer      *time.Timer // ends a turn, or a rest; nil while open
}

// An Account is one connection's share of a Budget. The Budget's lock guards it.
type Account struct {
	budget *Budget
	// served is called, with no lock held, after taking the n bytes requested from TakeOrWait. Set
	// once.
	served func(n int64)

	held   int64
	want   int64    // awaited bytes, then the bytes passed to served
	queued bool     // the account is in the queue
	next   *Account // in a list for notify
}

var defaultBudget = NewBudget(DefaultBudget)

// Default returns the shared Budget with DefaultBudget bytes.
func Default() *Budget { return defaultBudget }

// NewBudget returns a Budget with the given size.
func NewBudget(bytes int64) *Budget { return &Budget{total: bytes, free: bytes} }

// Free returns how many bytes are free.
func (b *Budget) Free() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free
}

// Total returns the Budget's size in bytes, held and free.
func (b *Budget) Total() int64 { return b.total }

// Waits returns how many accounts wait for bytes now, and how often an account has begun to wait.
func (b *Budget) Waits() (now int, ever uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue), b.queuedEver
}

// minFreeRatio is the required ratio between free and held bytes when others hold some too and a
// connection wants more than its first bytes.
const minFreeRatio = 16

// fits reports whether a connection holding held bytes may take n more. A lone connection may hold
// half the Budget, or one request of any size. Next to others, a first request may take as much as
// it leaves free, and further requests must be small compared with the remainder. So connections
// keeping their bytes do not starve the next. The caller holds mu.
func (b *Budget) fits(held, n int64) bool {
	left, alone := b.free-n, b.free+held == b.total
	switch {
	case left < 0:
		return false
	case held == 0:
		return alone || left >= n
	case alone:
		return left >= held+n
	}
	return left/minFreeRatio >= held+n
}

// Largest returns the largest possible request: a power of two, since buffers have such sizes.
func (b *Budget) Largest() int64 {
	return 1 << (bits.Len64(uint64(max(b.total, 1))) - 1)
}

// Open returns an empty Account. served is called once for each TakeOrWait that returned false,
// unless the account leaves the queue before that.
func (b *Budget) Open(served func(n int64)) *Account { return &Account{budget: b, served: served} }

// Take takes n bytes, or returns false if this Account cannot have them now.
func (a *Account) Take(n int64) bool {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(a, n)
}

func (b *Budget) take(a *Account, n int64) bool {
	if b.turn != nil && b.turn != a || !b.fits(a.held, n) {
		return false
	}
	b.free -= n
	a.held += n
	return true
}

// TakeOrWait is Take for callers able to wait. After false the account is in the queue, and served
// is called when it has the bytes, on the goroutine that returned bytes. TakeOrWait must not be
// called again before that.
func (a *Account) TakeOrWait(n int64) bool {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.take(a, n) {
		return true
	}
	a.want, a.queued = n, true
	b.queue = append(b.queue, a)
	b.queuedEver++
	b.startTurn()
	return false
}

// Give returns n bytes to the Budget.
func (a *Account) Give(n int64) {
	b := a.budget
	b.mu.Lock()
	b.free += n
	a.held -= n
	first := b.serve()
	b.mu.Unlock()
	notify(first)
}

// Leave takes the account out of the queue, and reports whether it was in the queue: if not, served
// has been called, or is about to be. The account must still give back its held bytes.
func (a *Account) Leave() bool {
	b := a.budget
	b.mu.Lock()
	waited := a.queued
	if waited {
		b.leave(a)
	}
	first := b.serve()
	b.mu.Unlock()
	notify(first)
	return waited
}

// Held returns the account's held bytes.
func (a *Account) Held() int64 {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.held
}

// serve gives free bytes to waiting accounts, and returns the served ones as a list for notify. The
// caller holds mu.
func (b *Budget) serve() (first *Account) {
	last := &first
	for i := 0; i < len(b.queue); {
		a := b.queue[i]
		if !b.take(a, a.want) {
			i++
			continue
		}
		b.leave(a)
		*last, last = a, &a.next
	}
	b.startTurn()
	return first
}

// notify calls served for a list's accounts, without mu.
func notify(first *Account) {
	for a := first; a != nil; {
		next, n := a.next, a.want // the account can change both once served runs
		a.next = nil
		a.served(n)
		a = next
	}
}

// leave takes an account out of the queue, which ends its turn. The caller holds mu.
func (b *Budget) leave(a *Account) {
	a.queued = false
	for i := range b.queue {
		if b.queue[i] == a {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			break
		}
	}
	if b.turn == a {
		b.timer.Stop()
		b.rest()
	}
}

// startTurn begins a turn for the first waiting account without held bytes. The caller holds mu.
func (b *Budget) startTurn() {
	if b.timer != nil {
		return
	}
	for _, a := range b.queue {
		if a.held == 0 {
			b.turn = a
			b.after(b.rest)
			return
		}
	}
}

// rest ends a turn. The caller holds mu.
func (b *Budget) rest() {
	b.turn = nil
	b.after(func() { b.timer = nil })
}

// after runs next when turnTime has passed, unless the timer was replaced meanwhile, and serves
// accounts if their requests fit. The caller holds mu.
func (b *Budget) after(next func()) {
	var mine *time.Timer
	mine = time.AfterFunc(turnTime, func() {
		b.mu.Lock()
		if b.timer == mine {
			next()
		}
		first := b.serve()
		b.mu.Unlock()
		notify(first)
	})
	b.timer = mine
}
