// Pools of receive buffers that many QPs share, and of the memory of their queues.

package rnic

import (
	"sync"
	"unsafe"
)

// A BufferPool has buffers of one size for the receives of many QPs. A receive that names a
// pool instead of a buffer takes one when a message begins to arrive, so that QPs that wait hold
// none: what posted receives cost then follows the messages that are there, not the connections.
// Buffers that nobody takes for some time are left to the garbage collector. All
// methods may be called from any goroutine.
type BufferPool struct {
	size int // set once
	pool sync.Pool
}

// NewBufferPool returns a pool of buffers of size bytes, at least one.
func NewBufferPool(size int) *BufferPool { return &BufferPool{size: max(size, 1)} }

// Size is the length of the buffers, in bytes.
func (p *BufferPool) Size() int { return p.size }

// Get returns a buffer; its content is arbitrary.
func (p *BufferPool) Get() []byte {
	if first, _ := p.pool.Get().(*byte); first != nil {
		return unsafe.Slice(first, p.size)
	}
	return make([]byte, p.size)
}

// Put gives back what Get, or a completion, has returned; nobody may use it after that.
// Slices of another capacity than the pool's are dropped.
func (p *BufferPool) Put(b []byte) {
	if cap(b) == p.size {
		p.pool.Put(unsafe.SliceData(b)) // a pointer, because a slice would have to be copied to the heap
	}
}
