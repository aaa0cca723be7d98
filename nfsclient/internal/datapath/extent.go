// Extents: written data that is not stable yet, as ranges without overlap.

package datapath

import (
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A state is the progress of an extent's data. A range without an extent is clean: the server's
// data is valid.
//
//	           Write                send                  reply UNSTABLE
//	clean ──────────────► dirty ──────────► inFlight ─────────────────────► unstable
//	  ▲                   ▲  │ ▲                │                            │    │
//	  │          Write in │  │ └── verifier ────┤                            │    │
//	  │          place    └──┘     changed      │         COMMIT found another    │
//	  │                      ▲     in the middle│         verifier           │    │
//	  │                      └──────────────────┼────────────────────────────┘    │
//	  │                    reply FILE_SYNC, or an error                           │
//	  ├─────────────────────────────────────────┘        COMMIT, same verifier    │
//	  └───────────────────────────────────────────────────────────────────────────┘
//
// A Write to an inFlight or unstable range cuts this range out of its extent and makes a dirty
// extent. So the slice of a WRITE in flight never changes, and newer data is sent only after its
// reply (see blocked). A Truncate waits for WRITEs beyond the size, then cuts out the data there.
type state uint8

const (
	dirty state = iota
	inFlight
	unstable
)

// An extent is a range of written data. It never crosses a multiple of Config.WriteSize, so one
// WRITE can send it.
type extent struct {
	off   int64
	data  []byte // in buf; the extent owns the capacity beyond the length
	buf   *buffer
	cred  Cred
	state state

	seq uint64         // number of the oldest Write with data in the extent
	how nfs3.StableHow // the stability to request

	op   *writeOp  // inFlight: its WRITE
	verf nfs3.Verf // unstable: the reply's verifier
	gen  uint64    // unstable: number of the COMMIT that will cover it

	queued     bool // dirty: the extent is in the File's queue
	prev, next *extent
}

var extents = sync.Pool{New: func() any { return new(extent) }}

func (x *extent) end() int64 { return x.off + int64(len(x.data)) }

// search returns the index of the first extent that ends after off.
func (f *File) search(off int64) int {
	lo, hi := 0, len(f.ext)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if f.ext[mid].end() > off {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// become changes an extent's state. No other code does.
func (f *File) become(x *extent, s state) {
	f.count(x.state, -len(x.data))
	f.unqueue(x)
	x.state, x.op = s, nil
	f.count(s, len(x.data))
}

// count adds n bytes to a state, for the File and the Engine.
func (f *File) count(s state, n int) {
	f.bytes[s] += int64(n)
	f.engine.bytes[s].Add(int64(n))
}

// add inserts a new extent, with its state set, at index i.
func (f *File) add(i int, x *extent) {
	f.count(x.state, len(x.data))
	f.ext = slices.Insert(f.ext, i, x)
}

// release removes the extent at i and returns it to the pool.
func (f *File) release(i int) {
	x := f.ext[i]
	f.count(x.state, -len(x.data))
	f.unqueue(x)
	f.ext = slices.Delete(f.ext, i, i+1)
	x.buf.unref()
	*x = extent{}
	extents.Put(x)
}

// split cuts the extent at i in two at off, an offset inside the extent. Both parts share the
// memory, and neither part can grow into the other.
func (f *File) split(i int, off int64) {
	x := f.ext[i]
	n := off - x.off
	y := extents.Get().(*extent)
	*y = *x
	y.off, y.data, y.buf = off, x.data[n:], x.buf.ref()
	y.queued, y.prev, y.next = false, nil, nil
	x.data = x.data[:n:n]
	f.ext = slices.Insert(f.ext, i+1, y)
	if x.queued {
		f.enqueue(y)
	}
}

// A carved describes removed data for which callers may still wait.
type carved struct {
	seq uint64         // number of the oldest unsent Write with removed data; 0: none
	how nfs3.StableHow // the requested stability of unsent removed data
}

// carve removes the written data in [off, end).
func (f *File) carve(off, end int64) (c carved) {
	i := f.search(off)
	for i < len(f.ext) && f.ext[i].off < end {
		if f.ext[i].off < off {
			f.split(i, off)
			i++
			continue
		}
		if f.ext[i].end() > end {
			f.split(i, end)
		}
		if x := f.ext[i]; x.state == dirty {
			if c.seq == 0 || x.seq < c.seq {
				c.seq = x.seq
			}
			c.how = max(c.how, x.how)
		}
		f.release(i)
	}
	return c
}

// lastEnd returns the last extent's end.
func (f *File) lastEnd() int64 {
	if len(f.ext) == 0 {
		return 0
	}
	return f.ext[len(f.ext)-1].end()
}

// enqueue queues a dirty extent for sending.
func (f *File) enqueue(x *extent) {
	if x.queued {
		return
	}
	x.queued, x.prev, x.next = true, f.queueTail, nil
	if x.prev == nil {
		f.queueHead = x
	} else {
		x.prev.next = x
	}
	f.queueTail = x
}

// unqueue removes x from the queue if x is queued.
func (f *File) unqueue(x *extent) {
	if !x.queued {
		return
	}
	if x.prev == nil {
		f.queueHead = x.next
	} else {
		x.prev.next = x.next
	}
	if x.next == nil {
		f.queueTail = x.prev
	} else {
		x.next.prev = x.prev
	}
	x.queued, x.prev, x.next = false, nil, nil
}
