// The Budget: a process-wide bound on the octets that connections hold for chunks.

package rpcrdma

import "sync"

// DefaultBudget is the octets that connections with no Budget of their own share.
const DefaultBudget = 256 << 20

// A Budget bounds the octets that all connections of it hold for pulled
// arguments and for results. What a connection gets hangs on what is free (see
// fits), so that those who keep what they have leave some for the next.
type Budget struct {
	total int64

	mu      sync.Mutex
	free    int64
	waiting []*Conn // each once, in order of arrival
}

var defaultBudget = NewBudget(DefaultBudget)

// NewBudget returns a Budget of that many octets.
func NewBudget(octets int64) *Budget { return &Budget{total: octets, free: octets} }

// Free is the number of octets that nobody holds at this moment.
func (b *Budget) Free() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.free
}

// Total is the number of bytes of the Budget, held or free.
func (b *Budget) Total() int64 { return b.total }

// greedy is how many times what a connection holds it has to leave free, when
// others hold some too and it wants more than a first helping.
const greedy = 16

// fits says whether a connection that holds so many octets may have n more. Who
// is alone may have half of all, or one call of any size. Beside others the first
// helping may be as much as it leaves, and further ones are small beside what
// they leave. So many that keep what they have do not starve the next.
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

// largest is the largest request that can ever be met: a power of two, for
// buffers come in these sizes.
func (b *Budget) largest() int64 {
	n := int64(1)
	for n*2 <= b.total {
		n *= 2
	}
	return n
}

// take takes n octets for a connection that holds some, or says that they are
// not there for it.
func (b *Budget) take(held, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fits(held, n) {
		return false
	}
	b.free -= n
	return true
}

// takeOrWait is take for pulls, which wait for their turn: when the octets are
// not there, c.runPulls is called once some have come back.
// The caller holds Conn.mu.
func (b *Budget) takeOrWait(c *Conn, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fits(c.held, n) {
		b.free -= n
		return true
	}
	for _, w := range b.waiting {
		if w == c {
			return false
		}
	}
	b.waiting = append(b.waiting, c)
	return false
}

// give returns n octets and lets the connections that wait try again.
func (b *Budget) give(n int64) {
	b.mu.Lock()
	b.free += n
	woken := b.waiting
	b.waiting = nil
	b.mu.Unlock()
	for _, c := range woken {
		c.runPulls()
	}
}

// forget drops a connection that has ended.
func (b *Budget) forget(c *Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, w := range b.waiting {
		if w == c {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			return
		}
	}
}
