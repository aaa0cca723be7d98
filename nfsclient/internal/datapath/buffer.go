// Buffers: pooled memory that is charged to a budget, and shared by count.

package datapath

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// minBuffer is the smallest buffer: many small writes in one page need no more than one.
const minBuffer = 4 << 10

// A buffer is memory for written data or read-ahead. It is used by
// extents, WRITEs on their way, readers that copy of it, and Views; the last of them
// gives it back.
type buffer struct {
	m      *mem.Buffer
	budget *budget
	acct   *account
	refs   atomic.Int32
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// charge is what a buffer for n bytes takes of a budget.
func charge(n int) int64 { return mem.Size(max(n, minBuffer)) }

// newBuffer returns a buffer for n bytes, for which the caller has taken charge(n).
func newBuffer(b *budget, a *account, n int) *buffer {
	buf := buffers.Get().(*buffer)
	buf.m, buf.budget, buf.acct = mem.Get(max(n, minBuffer)), b, a
	buf.refs.Store(1)
	return buf
}

// bytes is all memory of the buffer.
func (b *buffer) bytes() []byte { return b.m.B[:cap(b.m.B)] }

func (b *buffer) ref() *buffer {
	b.refs.Add(1)
	return b
}

// unref gives the memory back when nobody else uses it.
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
