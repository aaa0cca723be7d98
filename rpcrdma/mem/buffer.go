// Buffers in power-of-two sizes, kept for reuse.

// Package mem is the memory of RPC messages, over RDMA and TCP alike: one set of pools of
// buffers, and the Budget that bounds what all connections of a process hold at once.
// It knows neither messages nor connections.
package mem

import (
	"math/bits"
	"sync"
)

// The sizes of buffers: 512 bytes to 4 MiB. Larger ones are made anew and left to the
// garbage collector, since who asks for them is rare.
const (
	minShift = 9
	maxShift = 22
	classes  = maxShift - minShift + 1
)

// A Buffer is pooled memory. It has one owner at a time, from Get to Put.
type Buffer struct {
	B       []byte // as long as was asked for; its capacity is that of the size class
	Charged int    // bytes that its owner took from a Budget for it, if it keeps account here; Put forgets it
	class   int8   // of pools; -1: too large to keep
}

var pools [classes]sync.Pool

// class is the index of the smallest size that holds n bytes, or -1.
func class(n int) int {
	c := max(bits.Len(uint(max(n, 1)-1))-minShift, 0)
	if c >= classes {
		return -1
	}
	return c
}

// Size is what a buffer of n bytes takes in memory: what it counts in a Budget.
func Size(n int) int64 {
	if c := class(n); c >= 0 {
		return 1 << (minShift + c)
	}
	return int64(n)
}

// Get returns a buffer of n bytes, whose content is arbitrary. Where its size has been
// given back before it allocates nothing.
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

// Put gives the buffer back; nobody may use its bytes after that. A nil buffer is fine.
func (f *Buffer) Put() {
	if f != nil && f.class >= 0 {
		f.Charged = 0
		pools[f.class].Put(f)
	}
}

// Grow returns a buffer of n bytes that begins with the content of f: f itself, or
// another in its place, with its charge; then f has been given back.
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
