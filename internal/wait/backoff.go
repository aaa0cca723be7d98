// Package wait has parts shared by waiting loops: [Backoff] decides whether to skip a try,
// [Yield] and [Burst] give the processor to other threads.
package wait

import "sync/atomic"

const (
	// Passes is the number of tries skipped after a try that kept others waiting. 64: a
	// wait of four milliseconds for each 64 requests is some 60 µs for each request, about the cost
	// of waking a thread instead.
	Passes = 64

	// MissesMost is the number of misses in a row after which further misses change nothing. Eight:
	// one try in 256 costs nothing to speak of, and soon finds that tries pay again.
	MissesMost = 8
)

// A Backoff skips tries that would probably not pay: 2^k - 1 tries after k misses in a row, where k
// counts up to [MissesMost], or as many as Skip sets. The zero Backoff skips none. Any goroutine
// may call its methods; of two concurrent misses only one might count.
type Backoff struct {
	misses atomic.Int32 // in a row, at most MissesMost
	left   atomic.Int32 // tries to skip
	passed atomic.Uint64
}

// Note records a try: one that paid ends the row of misses, any other is a miss.
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

// Start makes the Backoff skip exactly the next [Passes] tries.
func (b *Backoff) Start() { b.Skip(Passes) }

// Skip makes the Backoff skip exactly the next n tries.
func (b *Backoff) Skip(n int) { b.left.Store(int32(n)) }

// Active reports whether to skip the next try.
func (b *Backoff) Active() bool { return b.left.Load() > 0 }

// Pass reports whether to skip this try, and counts a skipped try.
func (b *Backoff) Pass() bool {
	for n := b.left.Load(); n > 0; n = b.left.Load() {
		if b.left.CompareAndSwap(n, n-1) {
			b.passed.Add(1)
			return true
		}
	}
	return false
}

// Passed returns the number of skipped tries.
func (b *Backoff) Passed() uint64 { return b.passed.Load() }
