// Buffers: pooled memory, charged to a budget and reference-counted.

package datapath

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// A buffer is memory for written data or read-ahead. Extents, WRITEs in flight, copying readers,
// and Views share a buffer. The last user returns it to the pool.
type buffer struct {
	m      *mem.Buffer
	budget *budget
	acct   *account
	refs   atomic.Int32
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// charge returns a buffer's cost for n bytes.
func charge(n int) int64 { return mem.Size(max(n, minBuffer)) }

// newBuffer returns a buffer for n bytes. The caller has taken charge(n).
func newBuffer(b *budget, a *account, n int) *buffer {
	buf := buffers.Get().(*buffer)
	buf.m, buf.budget, buf.acct = mem.Get(max(n, minBuffer)), b, a
	buf.refs.Store(1)
	return buf
}

// bytes returns the buffer's whole memory.
func (b *buffer) bytes() []byte { return b.m.B[:cap(b.m.B)] }

// ref adds a reference for the caller and returns b.
func (b *buffer) ref() *buffer {
	b.refs.Add(1)
	return b
}

// unref drops a reference. The last one returns the memory.
func (b *buffer) unref() {
	if b.refs.Add(-1) > 0 {
		return
	}
	n := charge(cap(b.m.B))
	b.m.Put()
	budget, acct := b.budget, b.acct
	b.m, b.budget, b.acct = nil, nil, nil
	buffers.Put(b)
	budget.give(acct, n)
}
