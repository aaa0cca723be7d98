// Package wait has the parts that waiting loops share: [Backoff] decides when a try is worth it,
// [Yield] and [Burst] give the processor to other threads.
package wait

import "sync/atomic"

const (
	// Passes is the number of tries that are passed over after one that kept others waiting. 64: a
	// wait of four milliseconds for each 64 requests is some 60 µs for each request, about the cost
	// of waking a thread instead.
	Passes = 64

	// MissesMost is the number of misses in a row from which on more of them change nothing. Eight:
	// one try in 256 costs nothing to speak of, and soon finds that tries pay again.
	MissesMost = 8
)

// A Backoff passes over tries that would not pay: 2^k - 1 of them after k misses in a row, where k
// counts up to [MissesMost], or a number that is set. Its zero value passes over none. All methods
// are for any goroutine; of two misses at once one may count.
type Backoff struct {
	misses atomic.Int32 // in a row, at most MissesMost
	left   atomic.Int32 // tries to pass over
	passed atomic.Uint64
}

// Note counts a try that missed, or ends the row of those by one that has paid.
func (b *Backoff) Note(paid bool) {
	switch k := b.misses.Load(); { // stored only when it changes
	case !paid:
		k = min(k+1, MissesMost)
		b.misses.Store(k)
		b.Skip(1<<k - 1)
	case k > 0:
		b.misses.Store(0)
	}
}

// Start has the next [Passes] tries be passed over, and no more than these.
func (b *Backoff) Start() { b.Skip(Passes) }

// Skip is Start for the next n tries.
func (b *Backoff) Skip(n int) { b.left.Store(int32(n)) }

// Active reports whether the next try is to be passed over.
func (b *Backoff) Active() bool { return b.left.Load() > 0 }

// Pass reports whether a try is to be passed over, and counts it.
func (b *Backoff) Pass() bool {
	for n := b.left.Load(); n > 0; n = b.left.Load() {
		if b.left.CompareAndSwap(n, n-1) {
			b.passed.Add(1)
			return true
		}
	}
	return false
}

// Passed returns the number of tries that have been passed over.
func (b *Backoff) Passed() uint64 { return b.passed.Load() }
