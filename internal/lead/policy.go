// The policy: which requests are worth being run by the leader.

package lead

import "sync/atomic"

// AloneMin is the number of requests in a row, each without a concurrent one, after which the next
// request is expected to be alone, too. Eight: the row of a program that makes one call after
// another is long, and two programs seldom take turns for so long by chance.
const AloneMin = 8

// A Row counts the latest requests in a row without a concurrent one. Its zero value is an empty
// row. One goroutine at a time may call Count, any goroutine Alone.
type Row struct{ n atomic.Int32 }

// Count counts a new request. others: another request was concurrent, so the row restarts.
func (r *Row) Count(others bool) {
	switch n := r.n.Load(); { // stored only when it changes
	case others && n > 0:
		r.n.Store(0)
	case !others && n < AloneMin:
		r.n.Store(n + 1)
	}
}

// Alone reports whether the latest AloneMin requests were all alone.
func (r *Row) Alone() bool { return r.n.Load() >= AloneMin }
