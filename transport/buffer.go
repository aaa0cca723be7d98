// Pooled octet buffers in size classes, and the budget that bounds them.

package transport

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Size classes are powers of two from minClass to maxClass octets; anything
// larger is made anew and left to the garbage collector.
const (
	minClassBits = 9  // 512 octets
	maxClassBits = 22 // 4 MiB
)

// An octets is a pooled buffer. b has the length that was asked for.
type octets struct {
	b       []byte
	class   int8 // -1: not pooled
	charged int  // octets that a budget counts for it
}

var octetPools [maxClassBits - minClassBits + 1]sync.Pool

// getOctets returns a buffer of n octets whose content is arbitrary.
func getOctets(n int) *octets {
	class := max(bits.Len(uint(max(n, 1)-1))-minClassBits, 0)
	if class >= len(octetPools) {
		return &octets{b: make([]byte, n), class: -1}
	}
	if o, _ := octetPools[class].Get().(*octets); o != nil {
		o.b = o.b[:n]
		return o
	}
	return &octets{b: make([]byte, n, 1<<(class+minClassBits)), class: int8(class)}
}

// put gives the buffer back. A nil buffer is fine.
func (o *octets) put() {
	if o != nil && o.class >= 0 {
		o.charged = 0
		octetPools[o.class].Put(o)
	}
}

// grow returns a buffer of n octets that begins with the content of o, which it may be.
func (o *octets) grow(n int) *octets {
	if n <= cap(o.b) {
		o.b = o.b[:n]
		return o
	}
	bigger := getOctets(n)
	copy(bigger.b, o.b)
	bigger.charged, o.charged = o.charged, 0
	o.put()
	return bigger
}

// A budget bounds the octets that all connections of a server hold at once.
type budget struct {
	max  int64
	used atomic.Int64
}

// greedy is how many times what a connection holds it has to leave free, when
// others hold some too and it wants more than a first helping.
const greedy = 16

// take reserves n octets for the holder of held, or returns false when they are
// not to be had. Who is alone may have half of all, or one call of any size.
// Beside others the first helping may be as much as it leaves, and further ones are
// small beside what they leave. So many that keep what they have do not starve
// the next.
func (b *budget) take(n int, held *atomic.Int64) bool {
	used, h := b.used.Add(int64(n)), held.Add(int64(n))
	left, alone, first := b.max-used, used == h, h == int64(n)
	if left >= 0 && (alone && (first || left >= h) || first && left >= h || left/greedy >= h) {
		return true
	}
	b.give(n, held)
	return false
}

func (b *budget) give(n int, held *atomic.Int64) {
	held.Add(int64(-n))
	b.used.Add(int64(-n))
}
