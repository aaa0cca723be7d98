// Read: written data, data read ahead, and the server's, in this order.

package datapath

import (
	"context"
	"io"
	"sync"
	"syscall"
)

// Read reads at off into p, until p is full or the file ends, and reports whether it
// is known to end there. Written data is seen, be it at the server or not. If
// there is an error after some bytes, n counts these.
func (h *Handle) Read(ctx context.Context, cred Cred, p []byte, off int64) (n int, eof bool, err error) {
	if off < 0 {
		return 0, false, syscall.EINVAL
	}
	f := h.file
	f.mu.Lock()
	defer f.mu.Unlock()
	h.noteRead(cred, off, len(p))
	return f.read(ctx, cred, p, off, true)
}

// ReadDirect is Read that uses no read-ahead and causes none (O_DIRECT): what was not
// written here is asked of the server, which places it into p.
func (h *Handle) ReadDirect(ctx context.Context, cred Cred, p []byte, off int64) (n int, eof bool, err error) {
	if off < 0 {
		return 0, false, syscall.EINVAL
	}
	f := h.file
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read(ctx, cred, p, off, false)
}

// noteRead looks whether the read belongs to a sequential reader, and reads ahead of it.
func (h *Handle) noteRead(cred Cred, off int64, n int) {
	most := int64(h.file.engine.cfg.ReadAhead)
	if most < 0 || n == 0 {
		return
	}
	s := h.find(off, n)
	s.advance(off, n, most)
	h.file.readAhead(s, cred)
}

// read fills p. The lock is held on entry and on return, and not while it waits. Each
// part of p is as new as what had been written when read came to it.
func (f *File) read(ctx context.Context, cred Cred, p []byte, off int64, ahead bool) (n int, eof bool, err error) {
	for n < len(p) && !eof {
		if f.abandoned {
			return n, false, ErrClosed
		}
		at := off + int64(n)
		k := f.copyWritten(p[n:], at)
		if k == 0 && ahead {
			k, eof, err = f.copyAhead(ctx, p[n:], at)
		}
		if k == 0 && !eof && err == nil {
			k, eof, err = f.readServer(ctx, cred, p[n:], at, ahead)
		}
		n += max(k, 0)
		if err != nil {
			return n, false, err
		}
	}
	return n, eof, nil
}

// copyWritten copies written data that begins at off.
func (f *File) copyWritten(p []byte, off int64) int {
	i := f.search(off)
	if i == len(f.ext) || f.ext[i].off > off {
		return 0
	}
	return copy(p, f.ext[i].data[off-f.ext[i].off:])
}

// retry is what copyAhead copied when things have changed while it waited.
const retry = -1

// copyAhead copies data that was read ahead from off on. It waits for data that is on its
// way. No piece overlaps written data, so what it has is the newest.
func (f *File) copyAhead(ctx context.Context, p []byte, off int64) (n int, eof bool, err error) {
	if f.eofAt == off {
		f.eofAt = -1 // the next reader asks the server
		return 0, true, nil
	}
	i := f.searchPiece(off)
	if i == len(f.pieces) || f.pieces[i].off > off {
		return 0, false, nil
	}
	pc := f.pieces[i]
	if !pc.ready {
		return retry, false, f.wait(ctx)
	}
	n = copy(p, pc.data[off-pc.off:])
	eof = pc.ends(off + int64(n))
	f.delivered(pc, n)
	return n, eof, nil
}

// A pin keeps written data that a read must not miss, until the read has its reply: by
// then it may be clean, while the reply is of before it was written.
type pin struct {
	off  int64
	data []byte
	buf  *buffer
}

// readServer asks the server for what is neither written nor read ahead, up to the next
// piece. Written data in between is put over the reply, rather than to ask for each gap
// by itself.
func (f *File) readServer(ctx context.Context, cred Cred, p []byte, off int64, ahead bool) (n int, eof bool, err error) {
	end := off + int64(len(p))
	if ahead {
		if i := f.searchPiece(off); i < len(f.pieces) {
			end = min(end, f.pieces[i].off)
		}
	}
	for { // what ends with written data need not be asked for
		i := f.search(end - 1)
		if i == len(f.ext) || f.ext[i].off >= end {
			break
		}
		end = f.ext[i].off
	}
	p = p[:end-off]
	var few [8]pin
	pins := few[:0]
	for i := f.search(off); i < len(f.ext) && f.ext[i].off < end; i++ {
		x := f.ext[i]
		pins = append(pins, pin{x.off, x.data, x.buf.ref()})
	}
	last := f.lastEnd()

	f.mu.Unlock()
	n, eof, err = f.readAll(ctx, cred, p, off)
	f.mu.Lock()

	f.engine.misses.Add(int64(n))
	if err == nil {
		// Where the server's file ends before written data there is a hole.
		if size := int(min(int64(len(p)), last-off)); n < size {
			clear(p[n:size])
			n = size
		}
		for _, w := range pins {
			copy(p[w.off-off:], w.data)
		}
		eof = eof && last <= off+int64(n)
		f.noteEnd(off+int64(n), eof)
	}
	for _, w := range pins {
		w.buf.unref()
	}
	return n, eof, err
}

// noteEnd corrects what is known of the file's size by what a read has found.
func (f *File) noteEnd(end int64, eof bool) {
	switch {
	case eof:
		f.limit = max(end, f.lastEnd())
	case f.limit >= 0 && end > f.limit:
		f.limit = -1
	}
}

// readOne fills p, with as many READs as the server makes necessary, one after the other.
func (f *File) readOne(ctx context.Context, cred Cred, p []byte, off int64) (n int, eof bool, err error) {
	for n < len(p) && !eof {
		k, end, err := f.engine.srv.Read(ctx, f.fh, cred, p[n:], uint64(off)+uint64(n))
		if err == nil && (k < 0 || k > len(p)-n || k == 0 && !end) {
			err = io.ErrNoProgress
		}
		if err != nil {
			return n, false, err
		}
		n, eof = n+k, end
	}
	return n, eof, nil
}

// A part is what one READ of a large read has brought.
type part struct {
	n   int
	eof bool
	err error
}

// readAll fills p by READs at once, each as large as one may be.
func (f *File) readAll(ctx context.Context, cred Cred, p []byte, off int64) (n int, eof bool, err error) {
	size := f.engine.cfg.ReadSize
	if len(p) <= size {
		return f.readOne(ctx, cred, p, off)
	}
	parts := make([]part, (len(p)+size-1)/size)
	var all sync.WaitGroup
	for i := range parts {
		at := i * size
		all.Go(func() {
			r := &parts[i]
			r.n, r.eof, r.err = f.readOne(ctx, cred, p[at:min(at+size, len(p))], off+int64(at))
		})
	}
	all.Wait()
	for i := range parts {
		r := &parts[i]
		n += r.n
		if r.err != nil || r.eof {
			return n, r.eof, r.err
		}
	}
	return n, false, nil
}
