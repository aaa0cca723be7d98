// Buffers of requests and replies, in three sizes.

package fuseloop

import "sync"

// A buffer is the memory for one request or reply.
type buffer struct {
	b    []byte
	pool *sync.Pool
}

func (b *buffer) release() { b.pool.Put(b) }

// buffers has the pools, from the smallest to the largest.
type buffers struct {
	sizes [3]int
	pools [3]sync.Pool
}

// init sizes the largest buffers for up to most bytes of data.
func (bs *buffers) init(most int) {
	bs.sizes = [3]int{smallBuffer, middleBuffer, max(most+slack, middleBuffer)}
	for i := range bs.pools {
		size, pool := bs.sizes[i], &bs.pools[i]
		pool.New = func() any { return &buffer{b: make([]byte, size), pool: pool} }
	}
}

// get returns a buffer with at least n bytes, or nil if none is large enough.
func (bs *buffers) get(n int) *buffer {
	for i := range bs.pools {
		if n <= bs.sizes[i] {
			return bs.pools[i].Get().(*buffer)
		}
	}
	return nil
}

func (bs *buffers) largest() *buffer { return bs.get(bs.sizes[len(bs.sizes)-1]) }
