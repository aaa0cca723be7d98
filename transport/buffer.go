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

// take reserves n octets for the holder of held, or returns false when they are
// not to be had. The first that a connection takes may be as much as it leaves,
// further ones only so much that it leaves four times what it holds then; who is
// alone may take anything. So connections that keep what they have leave some
// for the next.
func (b *budget) take(n int, held *atomic.Int64) bool {
	left := b.max - b.used.Add(int64(n))
	h := held.Add(int64(n))
	switch {
	case left+int64(n) == b.max: // nobody else has any
		if left >= 0 {
			return true
		}
	case h == int64(n):
		if left >= h {
			return true
		}
	case left/4 >= h:
		return true
	}
	b.give(n, held)
	return false
}

func (b *budget) give(n int, held *atomic.Int64) {
	held.Add(int64(-n))
	b.used.Add(int64(-n))
}
