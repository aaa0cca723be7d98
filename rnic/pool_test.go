// Buffers of a pool: of the pool's size, or small for a small message.

package rnic

import "testing"

// TestBufferForMessage: a message gets a buffer that it fits in, a small one if the pool's are
// larger.
func TestBufferForMessage(t *testing.T) {
	large, small := NewBufferPool(12<<10), NewBufferPool(1<<10)
	for _, c := range []struct {
		pool      *BufferPool
		n, length int
	}{
		{large, 0, smallBuffer}, {large, smallBuffer, smallBuffer}, {large, smallBuffer + 1, 12 << 10}, {large, 12 << 10, 12 << 10},
		{small, 10, 1 << 10}, {small, 1 << 10, 1 << 10},
	} {
		for range 3 { // again, from buffers put back
			b := c.pool.GetFor(c.n)
			if len(b) != c.length || cap(b) != c.length {
				t.Errorf("%d bytes of a pool of %d: length %d, capacity %d, want %d", c.n, c.pool.Size(), len(b), cap(b), c.length)
			}
			c.pool.Put(b)
		}
		if b := c.pool.Get(); len(b) != c.pool.Size() {
			t.Errorf("Get returns %d bytes after a message of %d, want %d", len(b), c.n, c.pool.Size())
		}
	}
}
