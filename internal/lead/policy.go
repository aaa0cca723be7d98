// The policy: which requests are worth being run by the leader.

package lead

import "sync/atomic"

// AloneMin is the number of requests in a row, each with no other one beside it, from which on the
// next one is expected to be alone, too. Eight: the row of a program that makes one call after
// another is long, and two programs seldom take turns for so long by chance.
const AloneMin = 8

// A Row counts requests that came with no other one beside them. Its zero value is an empty row.
// Requests are counted by one goroutine at a time; Alone is for any.
type Row struct{ n atomic.Int32 }

// Count counts a request that has come. others: another one was beside it, and the row restarts.
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
