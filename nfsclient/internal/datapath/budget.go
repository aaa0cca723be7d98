// The budget: a bound on memory that many files share, with a line for those who wait.

package datapath

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// A budget bounds bytes of memory. An account that holds some may take more only as
// long as it holds no more than it leaves free. So one that never gives back, since its
// data is not answered, gets half at most, two of these a third each; there is always
// something left for the next.
//
// Who waits stands in one line, in order of arrival. One that is kept back by what
// its own account holds is passed over; one that needs more than is free is not,
// or small requests would starve it.
type budget struct {
	total int64 // set once

	mu   sync.Mutex // guards all that follows, and the accounts
	free int64
	line []*waiter

	waiting atomic.Int32 // length of line, to look at without the lock
}

// An account is what one file holds of a budget.
type account struct {
	most  int64 // set once
	leave int64 // set once: of this much the others are sure
	held  int64 // guarded by the budget's lock
}

func newBudget(total int64) *budget { return &budget{total: total, free: total} }

// A fit is whether a request can be met.
type fit uint8

const (
	fits   fit = iota
	ownFew     // not by what its account may hold
	allFew     // not by what is free
)

func (b *budget) fit(a *account, n int64) fit {
	if a.held > a.most-n || a.held > 0 && a.held+n > b.free-n || a.leave > 0 && n > b.free-a.leave {
		return ownFew
	}
	if n > b.free {
		return allFew
	}
	return fits
}

// take takes n bytes, or reports that they are not there now.
func (b *budget) take(a *account, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.line {
		if w.acct == a || b.fit(w.acct, w.want) == allFew {
			return false // that one was first
		}
	}
	if b.fit(a, n) != fits {
		return false
	}
	b.free -= n
	a.held += n
	return true
}

// give gives n bytes back.
func (b *budget) give(a *account, n int64) {
	b.mu.Lock()
	b.free += n
	a.held -= n
	b.serve()
	b.mu.Unlock()
}

// serve gives to those in line what is there for them. The caller holds mu.
func (b *budget) serve() {
	keep := b.line[:0]
	short := false
	for _, w := range b.line {
		how := allFew
		if !short {
			how = b.fit(w.acct, w.want)
		}
		if how != fits {
			short = short || how == allFew
			keep = append(keep, w)
			continue
		}
		b.free -= w.want
		w.acct.held += w.want
		w.granted = true
		w.ch <- struct{}{}
	}
	clear(b.line[len(keep):])
	b.line = keep
	b.waiting.Store(int32(len(keep)))
}

// wait takes n bytes as soon as they are there, unless ctx ends first.
func (b *budget) wait(ctx context.Context, pool *waiterPool, a *account, n int64) error {
	w := pool.get()
	defer pool.put(w)
	b.join(w, a, n)
	return b.await(ctx, w)
}

// join puts w in line for n bytes, and reports whether it has got them already. await
// must follow.
func (b *budget) join(w *waiter, a *account, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.acct, w.want = a, n
	b.line = append(b.line, w)
	b.serve()
	return w.granted
}

// await waits for what join has asked for. The error is ctx's, and then nothing was taken.
func (b *budget) await(ctx context.Context, w *waiter) error {
	select {
	case <-w.ch:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.granted { // at the same moment
		<-w.ch
		return nil
	}
	i := slices.Index(b.line, w)
	b.line = slices.Delete(b.line, i, i+1)
	b.serve()
	return ctx.Err()
}

// held is the number of bytes that are taken.
func (b *budget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total - b.free
}

// heldBy is the number of bytes that an account has taken.
func (b *budget) heldBy(a *account) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return a.held
}

// unbounded is the most of an account that has no bound of its own.
const unbounded = math.MaxInt64 / 2
