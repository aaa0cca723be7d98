// The Budget: a process-wide bound on the bytes that connections hold for arguments and results.

package mem

import (
	"math/bits"
	"sync"
	"time"
)

// DefaultBudget is the bytes that connections with no Budget of their own share.
const DefaultBudget = 256 << 20

// turnTime is how long at most one account is served before all others, and how
// long all are served alike after that.
const turnTime = 250 * time.Millisecond

// A Budget bounds the bytes that all connections of it hold for large
// arguments and for results. What a connection gets depends on what is free (see
// fits), so that those who keep what they have leave some for the next.
//
// Arguments wait in a line. Without more, small requests would take what comes back
// before there is ever enough for a large one. So the first in line that holds
// nothing yet gets a turn, in which nobody else is given anything. A turn ends
// when the account has been served, and after turnTime at the latest: those that
// hold the rest may hold it for long, for their disk is hung, and the others do
// not wait for that disk too.
//
//	        somebody who holds nothing waits
//	open ───────────────────────────────────► turn
//	 ▲                                          │ it is served, it leaves, or turnTime
//	 └──────── turnTime ──────── rest ◄─────────┘
//
// In open and in rest all are served that fit, in order of arrival.
type Budget struct {
	total int64 // set once

	mu    sync.Mutex // guards all that follows, and the accounts; no callback runs under it
	free  int64
	line  []*Account  // who wait for bytes, in order of arrival
	waits uint64      // times that somebody came into the line
	turn  *Account    // of line; nil unless the state is turn
	timer *time.Timer // ends a turn, or a rest; nil while open
}

// An Account is what one connection holds of a Budget. Its Budget's lock guards it.
type Account struct {
	budget *Budget
	served func(n int64) // called, with no lock held, when the n bytes waited for have been taken; set once

	held  int64
	want  int64    // what it waits for, and then what it is served with
	waits bool     // it is in line
	next  *Account // in a list of those to be told
}

var defaultBudget = NewBudget(DefaultBudget)

// Default is the Budget of DefaultBudget bytes of those that have none of their own.
func Default() *Budget { return defaultBudget }

// NewBudget returns a Budget of that many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{total: bytes, free: bytes} }

// Free is the number of bytes that nobody holds at this moment.
func (b *Budget) Free() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free
}

// Total is the number of bytes of the Budget, held or free.
func (b *Budget) Total() int64 { return b.total }

// Waits is how many accounts wait for bytes now, and how often one has begun to.
func (b *Budget) Waits() (now int, ever uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.line), b.waits
}

// greedy is how many times what a connection holds it has to leave free, when
// others hold some too and it wants more than its first bytes.
const greedy = 16

// fits reports whether a connection that holds some bytes may have n more. One
// that is alone may have half of all, or one call of any size. Beside others the
// first request may be as much as it leaves, and further ones are small beside what
// they leave. Any number that keep what they have do not starve the next.
// The caller holds mu.
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
	return left/greedy >= held+n
}

// Largest is the largest request that can ever be met: a power of two, for
// buffers come in these sizes.
func (b *Budget) Largest() int64 {
	return 1 << (bits.Len64(uint64(max(b.total, 1))) - 1)
}

// open returns an empty Account. served is called once for each takeOrWait that
// returned false, unless the account is closed before that.
func (b *Budget) Open(served func(n int64)) *Account { return &Account{budget: b, served: served} }

// Take takes n bytes, or reports that they are not there for this Account now.
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

// TakeOrWait is Take for those who can wait: when it returns false the account stands in
// line, and served is called when the bytes are its own, on the goroutine of whoever gave
// bytes back. Until then it is not called again.
func (a *Account) TakeOrWait(n int64) bool {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.take(a, n) {
		return true
	}
	a.want, a.waits = n, true
	b.line = append(b.line, a)
	b.waits++
	b.startTurn()
	return false
}

// Give returns n bytes.
func (a *Account) Give(n int64) {
	b := a.budget
	b.mu.Lock()
	b.free += n
	a.held -= n
	first := b.serve()
	b.mu.Unlock()
	tell(first)
}

// Leave takes the account out of the line, and reports whether it was there: if not,
// served has been called, or is about to be. What the account holds is still to be
// given back.
func (a *Account) Leave() bool {
	b := a.budget
	b.mu.Lock()
	waited := a.waits
	if waited {
		b.leave(a)
	}
	first := b.serve()
	b.mu.Unlock()
	tell(first)
	return waited
}

// Held is the number of bytes that the account holds.
func (a *Account) Held() int64 {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.held
}

// serve gives what is free to those in line, and returns them as a list for tell. The caller holds
// mu.
func (b *Budget) serve() (first *Account) {
	last := &first
	for i := 0; i < len(b.line); {
		a := b.line[i]
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

// tell calls served of the accounts of a list, without mu.
func tell(first *Account) {
	for a := first; a != nil; {
		next, n := a.next, a.want // which the account can have changed when it has been told
		a.next = nil
		a.served(n)
		a = next
	}
}

// leave takes an account out of the line, which ends its turn. The caller holds mu.
func (b *Budget) leave(a *Account) {
	a.waits = false
	for i := range b.line {
		if b.line[i] == a {
			b.line = append(b.line[:i], b.line[i+1:]...)
			break
		}
	}
	if b.turn == a {
		b.timer.Stop()
		b.rest()
	}
}

// startTurn begins the turn of the first in line that holds nothing. The caller holds mu.
func (b *Budget) startTurn() {
	if b.timer != nil {
		return
	}
	for _, a := range b.line {
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

// after does what is next when turnTime is over, unless the timer is another by
// then, and serves who fits. The caller holds mu.
func (b *Budget) after(next func()) {
	var mine *time.Timer
	mine = time.AfterFunc(turnTime, func() {
		b.mu.Lock()
		if b.timer == mine {
			next()
		}
		first := b.serve()
		b.mu.Unlock()
		tell(first)
	})
	b.timer = mine
}
