// The Budget: a process-wide bound on the octets that connections hold for chunks.

package rpcrdma

import "sync"

// DefaultBudget is the octets that connections with no Budget of their own share.
const DefaultBudget = 256 << 20

// A Budget bounds the octets that all connections of it hold for pulled
// arguments and for results. A connection gets at most a quarter of it, and no
// more than it leaves for all others: however many peers keep what they have, there
// is some left for the next.
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

// share is the most octets that a connection may hold that holds so many now.
func (b *Budget) share(held int64) int64 { return min((b.Free()+held)/2, b.total/4) }

// largest is the largest request that can ever be met: a power of two, for
// buffers come in these sizes.
func (b *Budget) largest() int64 {
	n := int64(1)
	for n*2 <= b.total {
		n *= 2
	}
	return n
}

// take takes n octets, or says that they are not there.
func (b *Budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.free {
		return false
	}
	b.free -= n
	return true
}

// takeOrWait is take for pulls, which wait for their turn: when the octets are
// not there, c.runPulls is called once some have come back.
func (b *Budget) takeOrWait(c *Conn, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n <= b.free {
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
