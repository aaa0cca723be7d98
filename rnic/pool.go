// Pools of receive buffers that many QPs share, and of the memory of their queues.

package rnic

import (
	"sync"
	"unsafe"
)

// A BufferPool has buffers for the receives of many QPs, and smaller ones for messages that are
// known to be small. A receive that names a pool instead of a buffer takes one when a message
// begins to arrive, so that QPs that wait hold none: what posted receives cost then follows the
// messages that are there, not the connections. Buffers that nobody takes for some time are left to
// the garbage collector. All methods may be called from any goroutine.
type BufferPool struct {
	size  int // set once
	pool  sync.Pool
	small sync.Pool // of smallBuffer bytes
}

// smallBuffer is the size of the smaller buffers of a pool: most messages of RPC fit, and a peer
// that sends many of them which have to wait holds no more than that for each.
const smallBuffer = 4 << 10

// NewBufferPool returns a pool of buffers of size bytes, at least one.
func NewBufferPool(size int) *BufferPool { return &BufferPool{size: max(size, 1)} }

// Size is the length of the buffers that Get returns, in bytes.
func (p *BufferPool) Size() int { return p.size }

// Get returns a buffer of Size bytes; its content is arbitrary.
func (p *BufferPool) Get() []byte { return get(&p.pool, p.size) }

// GetFor returns a buffer for a message of n bytes, at most Size; it may be smaller than Size.
func (p *BufferPool) GetFor(n int) []byte {
	if n <= smallBuffer && p.size > smallBuffer {
		return get(&p.small, smallBuffer)
	}
	return p.Get()
}

func get(pool *sync.Pool, size int) []byte {
	if first, _ := pool.Get().(*byte); first != nil {
		return unsafe.Slice(first, size)
	}
	return make([]byte, size)
}

// Put gives back what Get, GetFor, or a completion has returned; nobody may use it after that.
// Slices of another capacity than the pool's are dropped.
func (p *BufferPool) Put(b []byte) {
	// A pointer, because a slice would have to be copied to the heap.
	switch cap(b) {
	case p.size:
		p.pool.Put(unsafe.SliceData(b))
	case smallBuffer:
		p.small.Put(unsafe.SliceData(b))
	}
}
