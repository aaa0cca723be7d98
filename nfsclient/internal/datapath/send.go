// Sending: choosing a WRITE's extents, and handling its reply.

package datapath

import (
	"io"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A writeOp is a WRITE in flight. Its data does not change until the reply. Newer data may have
// replaced parts of its range meanwhile.
type writeOp struct {
	file *File
	off  int64
	data []byte
	buf  *buffer
	cred Cred
	how  nfs3.StableHow
	seq  uint64 // the oldest Write with data in it
	fn   func() // run, made once so that starting it does not allocate
}

// writeOpPool reuses ops with their fn, so that sending does not allocate.
var writeOpPool sync.Pool

// newWriteOp returns an unused op with fn set.
func newWriteOp() *writeOp {
	if o, _ := writeOpPool.Get().(*writeOp); o != nil {
		return o
	}
	o := new(writeOp)
	o.fn = o.run
	return o
}

func (o *writeOp) end() int64 { return o.off + int64(len(o.data)) }

// queueIfDue queues a dirty extent that has to be sent now: the extent cannot grow, or a caller
// waits for its data.
func (f *File) queueIfDue(x *extent) {
	if x.end()%int64(f.engine.cfg.WriteSize) == 0 || x.how != nfs3.Unstable || x.seq <= f.pushed || f.writeThrough {
		f.enqueue(x)
	}
}

// push queues all data of Writes up to seq.
func (f *File) push(seq uint64) {
	f.pushed = max(f.pushed, seq)
	for _, x := range f.ext {
		if x.state == dirty {
			f.queueIfDue(x)
		}
	}
}

// progress starts all possible calls. It runs after each change, with f.mu held.
//
// Data without a waiting caller is sent when half of the file's bound is dirty. Such data is also
// sent if a writer waits for memory and no WRITE in flight will free memory.
func (f *File) progress() {
	if f.truncating || f.abandoned {
		return
	}
	e := f.engine
	pressed := f.waiting > 0 || e.scarce()
	if f.queueHead == nil && f.bytes[dirty] > 0 && (pressed && len(f.ops) == 0 || 2*f.bytes[dirty] >= e.cfg.DirtyFile) {
		f.push(f.seq)
	}
	for x := f.queueHead; x != nil && len(f.ops) < maxOps; {
		if f.blocked(x) {
			x = x.next
			continue
		}
		f.start(f.coalesce(x))
		x = f.queueHead
	}
	f.commitIfDue(pressed)
}

// blocked reports whether older data for x's range is in flight: the server may run two WRITEs in
// either order.
func (f *File) blocked(x *extent) bool {
	for _, o := range f.ops {
		if o.off < x.end() && x.off < o.end() {
			return true
		}
	}
	return false
}

// coalesce merges x with the adjacent dirty extents into one.
func (f *File) coalesce(x *extent) *extent {
	i := f.search(x.off)
	lo, hi := i, i+1
	joins := func(y *extent) bool {
		return y.state == dirty && y.cred == x.cred && f.blockEnd(y.off) == f.blockEnd(x.off) && !f.blocked(y)
	}
	for lo > 0 && f.ext[lo-1].end() == f.ext[lo].off && joins(f.ext[lo-1]) {
		lo--
	}
	for hi < len(f.ext) && f.ext[hi].off == f.ext[hi-1].end() && joins(f.ext[hi]) {
		hi++
	}
	first, n := f.ext[lo], int(f.ext[hi-1].end()-f.ext[lo].off)
	if hi-lo == 1 {
		return x
	}
	if cap(first.data) < n || first.buf.refs.Load() > 1 {
		if !f.engine.written.take(&f.written, charge(n)) {
			return x
		}
		f.move(first, newBuffer(f.engine.written, &f.written, n))
	}
	for range hi - lo - 1 {
		y := f.ext[lo+1]
		first.data = append(first.data, y.data...)
		f.count(dirty, len(y.data))
		first.seq, first.how = min(first.seq, y.seq), max(first.how, y.how)
		f.release(lo + 1)
	}
	return first
}

// start sends an extent.
func (f *File) start(x *extent) {
	o := newWriteOp()
	o.file, o.off, o.data, o.buf, o.cred, o.how, o.seq = f, x.off, x.data, x.buf.ref(), x.cred, x.how, x.seq
	f.become(x, inFlight)
	x.op = o
	f.ops = append(f.ops, o)
	f.engine.running.Add(1)
	go o.fn()
}

// A writeOutcome is the result of a writeOp.
type writeOutcome struct {
	stable nfs3.StableHow // the least stable level in its replies
	verf   nfs3.Verf
	mixed  bool // the verifier changed between replies: earlier data may be lost
	err    error
}

// run writes all data of o, by more WRITEs after short replies.
func (o *writeOp) run() {
	f := o.file
	e := f.engine
	defer e.running.Done()
	res := writeOutcome{stable: nfs3.FileSync}
	for n := 0; n < len(o.data) && res.err == nil; {
		k, got, verf, err := e.srv.Write(e.ctx, f.fh, o.cred, o.data[n:], uint64(o.off)+uint64(n), o.how)
		if err == nil && (k <= 0 || k > len(o.data)-n) {
			err = io.ErrShortWrite
		}
		res.mixed = res.mixed || n > 0 && verf != res.verf
		res.stable, res.verf, res.err = min(res.stable, got), verf, err
		n += k
	}
	e.writes.Add(1)
	f.mu.Lock()
	f.endWrite(o, res)
	f.unlock()
}

// endWrite updates a WRITE's extents unless newer data replaced them.
func (f *File) endWrite(o *writeOp, res writeOutcome) {
	f.ops = slices.DeleteFunc(f.ops, func(p *writeOp) bool { return p == o })
	if res.stable == nfs3.FileSync {
		res.mixed = false
	}
	for i := f.search(o.off); i < len(f.ext) && f.ext[i].off < o.end(); i++ {
		x := f.ext[i]
		if x.op != o {
			continue
		}
		switch {
		case res.err != nil, res.stable == nfs3.FileSync:
			f.release(i)
			i--
		case res.mixed:
			f.resend(x)
		default:
			f.become(x, unstable)
			x.verf, x.gen = res.verf, f.commits.gen
		}
	}
	switch {
	case res.err != nil:
		f.fail(res.err)
	case res.stable != nfs3.FileSync:
		f.commits.wrote(res.verf, o.cred, res.mixed)
	}
	if res.err == nil {
		f.writeThrough = false
	}
	o.buf.unref()
	o.file, o.data, o.buf, o.cred = nil, nil, nil, nil
	writeOpPool.Put(o)
	f.changed()
}

// resend makes possibly lost data dirty and queues it.
func (f *File) resend(x *extent) {
	f.engine.rewritten.Add(int64(len(x.data)))
	f.become(x, dirty)
	f.enqueue(x)
}
