// Read: from written data, then read-ahead, then the server.

package datapath

import (
	"context"
	"io"
	"sync"
	"syscall"
)

// Read reads at off into p until p is full or the file ends. eof: the file ends there. Read sees
// written data even if the server does not have it. After an error n counts the bytes before it.
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

// ReadDirect is Read without read-ahead (O_DIRECT): the server places data directly into p, except
// written data that the Engine has.
func (h *Handle) ReadDirect(ctx context.Context, cred Cred, p []byte, off int64) (n int, eof bool, err error) {
	if off < 0 {
		return 0, false, syscall.EINVAL
	}
	f := h.file
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read(ctx, cred, p, off, false)
}

// noteRead finds the read's stream and reads ahead of it.
func (h *Handle) noteRead(cred Cred, off int64, n int) {
	most := int64(h.file.engine.cfg.ReadAhead)
	if most < 0 || n == 0 {
		return
	}
	s := h.find(off, n)
	s.advance(off, n, most)
	h.file.readAhead(s, cred)
}

// read fills p. The caller holds f.mu; read releases it while it waits. Each part of p is current
// at the moment when read reaches it.
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

// readAgain is copyAhead's count if the File changed during its wait.
const readAgain = -1

// copyAhead copies read-ahead data at off, after waiting for the piece's READ. Pieces never overlap
// written data, so their data is current.
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
		return readAgain, false, f.wait(ctx)
	}
	n = copy(p, pc.data[off-pc.off:])
	eof = pc.ends(off + int64(n))
	f.delivered(pc, n)
	return n, eof, nil
}

// A pinned keeps written data for a read until its reply. The data may become clean meanwhile,
// while the reply may be older than the data.
type pinned struct {
	off  int64
	data []byte
	buf  *buffer
}

// readServer asks the server for the range up to the next piece. It copies written data in this
// range over the reply, instead of sending a READ for each gap.
func (f *File) readServer(ctx context.Context, cred Cred, p []byte, off int64, ahead bool) (n int, eof bool, err error) {
	end := off + int64(len(p))
	if ahead {
		if i := f.searchPiece(off); i < len(f.pieces) {
			end = min(end, f.pieces[i].off)
		}
	}
	for { // shorten the range by written data at its end
		i := f.search(end - 1)
		if i == len(f.ext) || f.ext[i].off >= end {
			break
		}
		end = f.ext[i].off
	}
	p = p[:end-off]
	var few [8]pinned
	pins := few[:0]
	for i := f.search(off); i < len(f.ext) && f.ext[i].off < end; i++ {
		x := f.ext[i]
		pins = append(pins, pinned{x.off, x.data, x.buf.ref()})
	}
	last := f.lastEnd()

	f.mu.Unlock()
	n, eof, err = f.readAll(ctx, cred, p, off)
	f.mu.Lock()

	f.engine.misses.Add(int64(n))
	if err == nil {
		// If the server's file ends before written data, the bytes between them are a hole.
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

// noteEnd corrects the known size after a read.
func (f *File) noteEnd(end int64, eof bool) {
	switch {
	case eof:
		f.limit = max(end, f.lastEnd())
	case f.limit >= 0 && end > f.limit:
		f.limit = -1
	}
}

// readOne fills p by sequential READs: one, and another after each short reply.
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

// A readPart is one READ's result in a large read.
type readPart struct {
	n   int
	eof bool
	err error
}

// readAll fills p by concurrent READs of up to ReadSize bytes.
func (f *File) readAll(ctx context.Context, cred Cred, p []byte, off int64) (n int, eof bool, err error) {
	size := f.engine.cfg.ReadSize
	if len(p) <= size {
		return f.readOne(ctx, cred, p, off)
	}
	parts := make([]readPart, (len(p)+size-1)/size)
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
