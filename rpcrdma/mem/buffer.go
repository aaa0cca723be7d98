// Buffers in power-of-two sizes, kept for reuse.

// Package mem manages memory for RPC messages, over RDMA and TCP alike: buffer pools, and
// the Budget that bounds the bytes held by all connections in a process. It knows neither messages
// nor connections.
package mem

import (
	"math/bits"
	"sync"
)

// Buffer sizes: 512 bytes to 4 MiB. Larger ones are allocated and left to the garbage
// collector, because they are rare.
const (
	minShift = 9
	maxShift = 22
	classes  = maxShift - minShift + 1
)

// A Buffer is pooled memory. It has one owner at a time, from Get to Put.
type Buffer struct {
	B       []byte // has the requested length; its capacity is the size class
	Charged int    // bytes of a Budget taken for it, if its owner records them; Put resets it
	class   int8   // index into pools; -1: too large for a pool
}

var pools [classes]sync.Pool

// class returns the index of the smallest size of at least n bytes, or -1.
func class(n int) int {
	c := max(bits.Len(uint(max(n, 1)-1))-minShift, 0)
	if c >= classes {
		return -1
	}
	return c
}

// Size returns the memory used by a buffer with n bytes, counted in a Budget.
func Size(n int) int64 {
	if c := class(n); c >= 0 {
		return 1 << (minShift + c)
	}
	return int64(n)
}

// Get returns a buffer with n arbitrary bytes. It allocates nothing if a buffer of its
// size class was put back before.
func Get(n int) *Buffer {
	c := class(n)
	if c < 0 {
		return &Buffer{B: make([]byte, n), class: -1}
	}
	if f, _ := pools[c].Get().(*Buffer); f != nil {
		f.B = f.B[:n]
		return f
	}
	return &Buffer{B: make([]byte, n, 1<<(minShift+c)), class: int8(c)}
}

// Put returns the buffer to its pool; its bytes must not be used after that. A nil buffer is fine.
func (f *Buffer) Put() {
	if f != nil && f.class >= 0 {
		f.Charged = 0
		pools[f.class].Put(f)
	}
}

// Grow returns a buffer with n bytes that begins with f's content. It is f itself, or a replacement
// that takes over f's charge; f has then been put back.
func (f *Buffer) Grow(n int) *Buffer {
	if n <= cap(f.B) {
		f.B = f.B[:n]
		return f
	}
	bigger := Get(n)
	copy(bigger.B, f.B)
	bigger.Charged, f.Charged = f.Charged, 0
	f.Put()
	return bigger
}
