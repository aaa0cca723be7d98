// The budget: a bound on memory shared by many files, with a queue.

package datapath

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// A budget bounds memory in bytes. An account with some memory may take more only if its total is
// then at most the memory left free. So an account that never returns memory, because no reply
// comes for its data, gets at most half of the budget. Two such accounts get a third each, and some
// memory always remains for the next.
//
// Waiters queue in order of arrival. serve passes over a waiter blocked by its own account's share.
// It stops at a waiter that needs more than the free memory, because small requests would starve
// it.
type budget struct {
	total int64 // set once

	mu    sync.Mutex // guards all that follows, and the accounts
	free  int64
	queue []*waiter

	waiting atomic.Int32 // length of queue, readable without mu
}

// An account is one file's part of a budget.
type account struct {
	limit   int64 // set once
	reserve int64 // set once: bytes left free for other accounts
	used    int64 // guarded by the budget's mu
}

func newBudget(total int64) *budget { return &budget{total: total, free: total} }

// A fit is the result of checking a request for memory.
type fit uint8

const (
	fits         fit = iota
	accountShort     // exceeds the account's share
	budgetShort      // exceeds the free memory
)

// fit checks a request for n bytes against the account's limit and reserve and the free memory. The
// caller holds b.mu.
func (b *budget) fit(a *account, n int64) fit {
	if a.used > a.limit-n || a.used > 0 && a.used+n > b.free-n || a.reserve > 0 && n > b.free-a.reserve {
		return accountShort
	}
	if n > b.free {
		return budgetShort
	}
	return fits
}

// take takes n bytes, or returns false if it would have to wait for them.
func (b *budget) take(a *account, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.queue {
		if w.acct == a || b.fit(w.acct, w.want) == budgetShort {
			return false // the memory goes to that earlier waiter first
		}
	}
	if b.fit(a, n) != fits {
		return false
	}
	b.free -= n
	a.used += n
	return true
}

// give returns n bytes.
func (b *budget) give(a *account, n int64) {
	b.mu.Lock()
	b.free += n
	a.used -= n
	b.serve()
	b.mu.Unlock()
}

// serve grants the waiters' requests that fit. The caller holds b.mu.
func (b *budget) serve() {
	keep := b.queue[:0]
	short := false
	for _, w := range b.queue {
		how := budgetShort
		if !short {
			how = b.fit(w.acct, w.want)
		}
		if how != fits {
			short = short || how == budgetShort
			keep = append(keep, w)
			continue
		}
		b.free -= w.want
		w.acct.used += w.want
		w.granted = true
		w.ch <- struct{}{}
	}
	clear(b.queue[len(keep):])
	b.queue = keep
	b.waiting.Store(int32(len(keep)))
}

// join queues w for n bytes and reports whether w got them at once. Call await afterwards.
func (b *budget) join(w *waiter, a *account, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.acct, w.want = a, n
	b.queue = append(b.queue, w)
	b.serve()
	return w.granted
}

// await waits for the bytes requested by join. If it returns ctx's error, the account got no bytes.
func (b *budget) await(ctx context.Context, w *waiter) error {
	select {
	case <-w.ch:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.granted { // serve granted the bytes as ctx ended
		<-w.ch
		return nil
	}
	i := slices.Index(b.queue, w)
	b.queue = slices.Delete(b.queue, i, i+1)
	b.serve()
	return ctx.Err()
}

// used returns the bytes taken.
func (b *budget) used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total - b.free
}

// usedBy returns the bytes taken by an account.
func (b *budget) usedBy(a *account) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return a.used
}

// unbounded is the limit for accounts without a bound.
const unbounded = math.MaxInt64 / 2
