// Pools of receive buffers shared by many QPs, and their queues' memory.

package rnic

import (
	"sync"
	"unsafe"
)

// A BufferPool has buffers for the receives of many QPs, and smaller ones for messages known to be
// small. A receive with a pool instead of a buffer takes one when a message begins to arrive, so
// that waiting QPs hold none: memory follows the messages in flight, not the connections. The
// garbage collector frees buffers unused for some time. Any goroutine may call the methods.
type BufferPool struct {
	size  int // set once
	pool  sync.Pool
	small sync.Pool // of smallBuffer bytes
}

// smallBuffer is the size of a pool's smaller buffers: most RPC messages fit, and a peer with many
// waiting small messages holds no more than this for each.
const smallBuffer = 4 << 10

// NewBufferPool returns a pool of buffers with size bytes, at least one.
func NewBufferPool(size int) *BufferPool { return &BufferPool{size: max(size, 1)} }

// Size returns the length in bytes of the buffers from Get.
func (p *BufferPool) Size() int { return p.size }

// Get returns a buffer of Size bytes with arbitrary content.
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

// Put returns a buffer from Get, GetFor, or a completion to the pool; b must not be used after
// that. Slices with other capacities than the pool's are dropped.
func (p *BufferPool) Put(b []byte) {
	// A pointer, because storing a slice would copy it to the heap.
	switch cap(b) {
	case p.size:
		p.pool.Put(unsafe.SliceData(b))
	case smallBuffer:
		p.small.Put(unsafe.SliceData(b))
	}
}
