// Extents: the written data of a file that is not stable yet, as ranges that do not overlap.

package datapath

import (
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A state is how far the data of an extent has come. A range that is in no extent is
// clean: the server's data is what counts.
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
// A Write to a range that is inFlight or unstable takes that range out of its extent,
// and makes a dirty one of it: the slice of a WRITE on its way is never written to, and
// the newer data is not sent before that WRITE has been answered (see blocked).
// A Truncate takes out what lies beyond the size, once no WRITE beyond it is on its way.
type state uint8

const (
	dirty state = iota
	inFlight
	unstable
)

// An extent is a range of written data. It never crosses a multiple of
// Config.WriteSize, so it can be sent by one WRITE.
type extent struct {
	off   int64
	data  []byte // in buf; the capacity beyond the length is the extent's own
	buf   *buffer
	cred  Cred
	state state

	seq uint64         // of the oldest Write whose data it has
	how nfs3.StableHow // what is asked of the server

	op   *op       // inFlight: by which WRITE
	verf nfs3.Verf // unstable: the reply's
	gen  uint64    // unstable: the COMMIT that will cover it, by number

	queued     bool // dirty: it is in the File's queue
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

// become is the one place where an extent changes its state.
func (f *File) become(x *extent, s state) {
	f.count(x.state, -len(x.data))
	f.unqueue(x)
	x.state, x.op = s, nil
	f.count(s, len(x.data))
}

// count keeps the bytes in each state, of the File and of the Engine.
func (f *File) count(s state, n int) {
	f.bytes[s] += int64(n)
	f.engine.bytes[s].Add(int64(n))
}

// add puts a new extent into the map, at index i. Its state is set.
func (f *File) add(i int, x *extent) {
	f.count(x.state, len(x.data))
	f.ext = slices.Insert(f.ext, i, x)
}

// release takes the extent at i out of the map, and out of use.
func (f *File) release(i int) {
	x := f.ext[i]
	f.count(x.state, -len(x.data))
	f.unqueue(x)
	f.ext = slices.Delete(f.ext, i, i+1)
	x.buf.unref()
	*x = extent{}
	extents.Put(x)
}

// split cuts the extent at i in two at off, which is inside of it. Both share the
// memory, and neither can grow into the other's.
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

// A carved is what the data that was taken out of the map still owed.
type carved struct {
	seq uint64         // of the oldest Write that was not sent yet; 0: none
	how nfs3.StableHow // what was asked for it
}

// carve takes [off, end) out of the map.
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

// lastEnd is where the last extent ends.
func (f *File) lastEnd() int64 {
	if len(f.ext) == 0 {
		return 0
	}
	return f.ext[len(f.ext)-1].end()
}

// enqueue puts a dirty extent in line to be sent.
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
