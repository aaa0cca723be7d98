// Chunk buffers in power-of-two sizes, kept for reuse.

package rpcrdma

import (
	"math/bits"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// The sizes of chunk buffers: 4 KiB to 4 MiB. Larger ones are not kept.
const (
	minBufferShift = 12
	maxBufferShift = 22
	bufferClasses  = maxBufferShift - minBufferShift + 1
)

// A buffer is memory for one chunk or one result item. One owner at a time: it
// is taken for a Request or a Call and comes home when that ends.
type buffer struct {
	b     []byte
	class int // -1: too large to keep
}

var bufferPools [bufferClasses]sync.Pool

// bufferClass is the index of the smallest size that holds n octets, or -1.
func bufferClass(n int) int {
	if n <= 1<<minBufferShift {
		return 0
	}
	class := bits.Len(uint(n-1)) - minBufferShift
	if class >= bufferClasses {
		return -1
	}
	return class
}

// bufferSize is what a buffer for n octets counts in the Budget.
func bufferSize(n int) int64 {
	if class := bufferClass(n); class >= 0 {
		return 1 << (minBufferShift + class)
	}
	return int64(n)
}

// getBuffer returns a buffer of n octets or somewhat more. Its contents are whatever they were.
func getBuffer(n int) *buffer {
	class := bufferClass(n)
	if class < 0 {
		return &buffer{b: make([]byte, n), class: class}
	}
	if v := bufferPools[class].Get(); v != nil {
		return v.(*buffer)
	}
	return &buffer{b: make([]byte, 1<<(minBufferShift+class)), class: class}
}

// put brings the buffer home.
func (f *buffer) put() {
	if f.class >= 0 {
		bufferPools[f.class].Put(f)
	}
}

// receivePools are the pools of receive buffers, by their size: one for all connections that
// have the same.
var receivePools sync.Map // int to *rnic.BufferPool

func receiveBuffers(size int) *rnic.BufferPool {
	if p, ok := receivePools.Load(size); ok {
		return p.(*rnic.BufferPool)
	}
	p, _ := receivePools.LoadOrStore(size, rnic.NewBufferPool(size))
	return p.(*rnic.BufferPool)
}
