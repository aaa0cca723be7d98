// The policy: which requests are worth being run by the leader.

package lead

import "sync/atomic"

const (
	// AloneMin is the number of requests in a row, each with no other one beside it, from which on
	// the next one is expected to be alone, too. Eight: the row of a program that makes one call
	// after another is long, and two programs seldom take turns for so long by chance.
	AloneMin = 8

	// Passes is the number of requests that are left to other goroutines after one that kept others
	// waiting. 64: a wait of two ticks for each 64 requests is some 60 µs for each of them, which
	// is about what it costs to wake a thread instead.
	Passes = 64
)

// A Row counts requests that came with no other one beside them. Its zero value is an empty row.
// Requests are counted by one goroutine at a time; Alone is for any.
type Row struct{ n atomic.Int32 }

// Count counts a request that has come. others: another one was beside it, and the row begins anew.
func (r *Row) Count(others bool) {
	switch n := r.n.Load(); { // stored only when it changes
	case others && n > 0:
		r.n.Store(0)
	case !others && n < AloneMin:
		r.n.Store(n + 1)
	}
}

// Alone reports whether the latest request was alone, and those before it.
func (r *Row) Alone() bool { return r.n.Load() >= AloneMin }

// A Backoff passes over requests after one that kept others waiting. Its zero value passes over
// none. All methods are for any goroutine.
type Backoff struct {
	left   atomic.Int32 // requests to pass over
	passed atomic.Uint64
}

// Start has the next [Passes] requests be passed over, and no more than these.
func (b *Backoff) Start() { b.left.Store(Passes) }

// Active reports whether the next request is to be passed over.
func (b *Backoff) Active() bool { return b.left.Load() > 0 }

// Passed is how many requests have been passed over.
func (b *Backoff) Passed() uint64 { return b.passed.Load() }

// Pass reports whether a request is to be passed over, and counts it.
func (b *Backoff) Pass() bool {
	for n := b.left.Load(); n > 0; n = b.left.Load() {
		if b.left.CompareAndSwap(n, n-1) {
			b.passed.Add(1)
			return true
		}
	}
	return false
}
