// Copies the bytes of one file: several blocks concurrently, skipping holes, whatever size was
// reported.

package treecopy

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

const (
	blockSize   = 1 << 20  // bytes per piece of a large file
	blockWindow = 8        // concurrent pieces of a large file
	smallRead   = 4 << 10  // bytes requested from an apparently empty file
	holeSize    = 16 << 10 // bytes of zeros that become a hole, aligned to this size
)

// content is a file's bytes, with the first block in memory.
type content struct {
	src      Source
	m        *Meta
	head     []byte // the first bytes of the file
	eof      bool   // head is the whole file
	consumed bool   // bytes of a stream after head were read
}

// A readError is the source's error.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

// begin reads up to a block into b. It requests one byte more than the size, to see the end without
// another call. The reported size may be wrong, or zero as in /proc.
func (c *content) begin(b []byte) error {
	if c.m.Mode.IsRegular() {
		b = b[:min(max(c.m.Size+1, smallRead), int64(len(b)))]
	}
	n, eof, err := c.readFull(b, 0)
	if err == nil && !eof && len(b) < cap(b) && len(b) < blockSize { // the file has grown
		var k int
		k, eof, err = c.readFull(b[n:min(cap(b), blockSize)], int64(n))
		n += k
	}
	c.head, c.eof = b[:n], eof
	return err
}

// wholeSize returns the file's size if one write can hold it, or -1.
func (c *content) wholeSize() int {
	if c.eof {
		return len(c.head)
	}
	return -1
}

// readFull fills p from off, or with the next bytes of a stream. eof reports that the file ends
// before or with p. Errors other than io.EOF are the source's: unlike in io.ReadFull, a broken
// stream is not an ended stream.
func (c *content) readFull(p []byte, off int64) (n int, eof bool, err error) {
	if !c.src.Stream() {
		n, err = c.src.ReadAt(p, off)
	} else {
		for n < len(p) && err == nil {
			var k int
			k, err = c.src.Read(p[n:])
			n += k
		}
	}
	if isEnd(err) {
		return n, true, nil
	}
	return n, false, err
}

// isEnd reports whether err is io.EOF itself. A wrapped io.EOF is the end of something else, such
// as a connection, so the file may be incomplete.
func isEnd(err error) bool {
	return err == io.EOF //nolint:errorlint // the error itself, as the doc comment says
}

// maxResend limits how often a file is resent to a server that restarts during its copy.
const maxResend = 3

// pump writes the content to sink. It returns nil once the data is safe on a server. Local data is
// safe only with durable.
func (r *Run) pump(ctx context.Context, c *content, sink Sink, durable bool) error {
	_, local := sink.(*localSink)
	for try := 0; ; try++ {
		w := &writer{r: r, sink: sink, zeros: r.findZeros(c.m) && !sink.Stream()}
		err := r.copyContent(ctx, c, w)
		if err == nil && (!local || durable) {
			err = sink.Sync()
		}
		if err != nil {
			r.Bytes.Add(-w.counted.Load())
		}
		if err == nil || try == maxResend || !isLostWrites(err) || c.consumed {
			return err
		}
	}
}

// findZeros reports whether runs of zeros become holes.
func (r *Run) findZeros(m *Meta) bool {
	return r.opt.Sparse == SparseAlways || r.opt.Sparse == SparseAuto && m.sparse()
}

// copyContent copies all content, then sets the size in case the file ends in a hole.
func (r *Run) copyContent(ctx context.Context, c *content, w *writer) error {
	end := int64(len(c.head))
	if err := w.write(c.head, 0); err != nil {
		return err
	}
	var err error
	switch {
	case c.eof:
	case c.src.Stream() || w.sink.Stream():
		end, err = r.inOrder(ctx, c, w, end)
	default:
		end, err = r.inParallel(ctx, c, w, end)
	}
	if err == nil && end > w.max.Load() && !w.sink.Stream() {
		err = w.sink.Truncate(end)
	}
	return err
}

// inOrder copies from off to the end, one block at a time.
func (r *Run) inOrder(ctx context.Context, c *content, w *writer, off int64) (int64, error) {
	b := r.blocks.Get().(*[]byte)
	defer r.blocks.Put(b)
	p := *b
	if c.src.Stream() {
		c.consumed = true
	}
	for {
		if err := ctx.Err(); err != nil {
			return off, err
		}
		n, eof, err := c.readFull(p, off)
		if err != nil {
			return off, &readError{err}
		}
		if err := w.write(p[:n], off); err != nil {
			return off, err
		}
		off += int64(n)
		if eof {
			return off, nil
		}
	}
}

// inParallel copies from off to the end. Up to the reported size it copies several blocks
// concurrently, or only the data segments if the source has holes. After that it checks for more
// data. It returns the file's end.
func (r *Run) inParallel(ctx context.Context, c *content, w *writer, off int64) (int64, error) {
	p := &parallel{r: r, c: c, w: w}
	p.g, p.ctx = errgroup.WithContext(ctx)
	p.g.SetLimit(blockWindow)
	var end int64
	if c.m.sparse() && r.opt.Sparse != SparseNever {
		end = p.segments(off)
	} else {
		end = p.blocks(off, c.m.Size)
	}
	if err := p.g.Wait(); err != nil {
		return 0, err
	}
	if p.err != nil {
		return 0, &readError{p.err}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if p.eof.Load() {
		return p.last.Load(), nil
	}
	return r.inOrder(ctx, c, w, end)
}

// parallel has one file's blocks in flight.
type parallel struct {
	r    *Run
	c    *content
	w    *writer
	g    *errgroup.Group
	ctx  context.Context
	eof  atomic.Bool  // a read has reached the end
	last atomic.Int64 // end of the data read so far
	err  error        // the error of the goroutine that hands out blocks
}

// blocks copies from off to end and returns the offset reached.
func (p *parallel) blocks(off, end int64) int64 {
	raiseTo(&p.last, off)
	for ; off < end && p.ctx.Err() == nil && !p.eof.Load(); off += blockSize {
		at := off
		p.g.Go(func() error {
			b := p.r.blocks.Get().(*[]byte)
			defer p.r.blocks.Put(b)
			n, eof, err := p.c.readFull(*b, at)
			if err != nil {
				return &readError{err}
			}
			if eof {
				p.eof.Store(true)
			}
			if n > 0 {
				raiseTo(&p.last, at+int64(n))
			}
			return p.w.write((*b)[:n], at)
		})
		if off > 1<<63-1-blockSize {
			break
		}
	}
	return off
}

// segments copies the file system's data segments, or all bytes if the file system does not report
// segments.
func (p *parallel) segments(off int64) int64 {
	size := int64(-1) // the size when the data last ended at off; -1: never
	for p.ctx.Err() == nil {
		start, end, ok, err := p.c.src.NextData(off)
		if !ok {
			return p.blocks(off, p.c.m.Size)
		}
		switch {
		case !isEnd(err):
			p.w.count(start - off)
			p.extent(start, end)
			off, size = end, -1
		case size < 0:
			// Data that was added between NextData and Size lies below this size, and would be
			// taken for a hole. So query the data segments again.
			if size, err = p.c.src.Size(); err != nil {
				p.err = err
				return off
			}
		default:
			p.w.count(max(size-off, 0))
			p.eof.Store(true)
			raiseTo(&p.last, size)
			return off
		}
	}
	return off
}

// extent copies one segment of data.
func (p *parallel) extent(off, end int64) {
	raiseTo(&p.last, off)
	for ; off < end && p.ctx.Err() == nil; off += blockSize {
		at, n := off, min(blockSize, end-off)
		p.g.Go(func() error {
			b := p.r.blocks.Get().(*[]byte)
			defer p.r.blocks.Put(b)
			k, _, err := p.c.readFull((*b)[:n], at)
			if err != nil {
				return &readError{err}
			}
			return p.w.write((*b)[:k], at)
		})
	}
}

// raiseTo makes v at least n.
func raiseTo(v *atomic.Int64, n int64) {
	for old := v.Load(); old < n && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}

// A writer writes blocks to the sink and counts the bytes. Blocks of one file are written
// concurrently, so the writer's fields are set before the first block, or atomic.
type writer struct {
	r       *Run
	sink    Sink
	zeros   bool         // runs of zeros become holes
	max     atomic.Int64 // end of the last byte written
	counted atomic.Int64 // bytes added to the run's count, to subtract if the file is resent
}

func (w *writer) count(n int64) {
	w.r.Bytes.Add(n)
	w.counted.Add(n)
}

var noBytes [holeSize]byte

func (w *writer) write(p []byte, off int64) error {
	if !w.zeros {
		return w.put(p, off)
	}
	for len(p) > 0 {
		n, zero := w.run(p, off)
		if zero {
			w.count(int64(n))
		} else if err := w.put(p[:n], off); err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// run returns the length of the first part of p that is all zeros or all data, in units of
// holeSize.
func (w *writer) run(p []byte, off int64) (n int, zero bool) {
	for n < len(p) {
		k := min(holeSize-int((off+int64(n))%holeSize), len(p)-n)
		z := bytes.Equal(p[n:n+k], noBytes[:k])
		if n > 0 && z != zero {
			break
		}
		n, zero = n+k, z
	}
	return n, zero
}

func (w *writer) put(p []byte, off int64) error {
	if len(p) == 0 {
		return nil
	}
	if _, err := w.sink.WriteAt(p, off); err != nil {
		return err
	}
	raiseTo(&w.max, off+int64(len(p)))
	w.count(int64(len(p)))
	return nil
}
