// Write: copying data into extents, possibly after waiting for memory.

package datapath

import (
	"context"
	"syscall"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Write writes p at off. With nfs3.Unstable it returns after copying p to the Engine's memory,
// possibly after waiting for free memory. With DataSync (O_DSYNC) and FileSync (O_SYNC) it returns
// after the data is stable. After ENOSPC, EDQUOT or EFBIG each Write waits for the server's reply,
// until a WRITE succeeds. n counts accepted bytes, which are written even if ctx ended the wait.
func (h *Handle) Write(ctx context.Context, cred Cred, p []byte, off int64, how nfs3.StableHow) (n int, err error) {
	f := h.file
	switch {
	case off < 0:
		return 0, syscall.EINVAL
	case off > unbounded-int64(len(p)):
		return 0, syscall.EFBIG
	case f.engine.cfg.Sync:
		how = nfs3.FileSync
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := h.takeErr(); err != nil {
		return 0, err
	}
	f.seq++
	for n < len(p) && h.err == nil {
		var k int
		if k, err = f.accept(ctx, cred, p[n:], off+int64(n), how); err != nil {
			break
		}
		n += k
	}
	if n > 0 && (how != nfs3.Unstable || f.writeThrough) {
		if e := f.awaitSent(ctx, f.seq, off, off+int64(n)); err == nil {
			err = e
		}
		if e := h.takeErr(); e != nil {
			return 0, e
		}
	}
	if n == 0 && err == nil {
		err = h.takeErr()
	}
	return n, err
}

// accept copies the front of p into extents and returns its length.
func (f *File) accept(ctx context.Context, cred Cred, p []byte, off int64, how nfs3.StableHow) (int, error) {
	for f.truncating && !f.abandoned {
		if err := f.wait(ctx); err != nil {
			return 0, err
		}
	}
	if f.abandoned {
		return 0, ErrClosed
	}
	p = p[:min(int64(len(p)), f.blockEnd(off)-off)]
	if n := f.overwrite(cred, p, off, how); n > 0 {
		return n, nil
	}
	if !f.extend(cred, p, off, how) {
		size := f.bufferSize(off, len(p), f.writeEnd == off)
		if !f.engine.written.take(&f.written, charge(size)) {
			size = len(p) // only the necessary memory
			if err := f.waitMemory(ctx, charge(size)); err != nil {
				return 0, err
			}
		}
		buf := newBuffer(f.engine.written, &f.written, size)
		if f.truncating || f.abandoned { // set while f.mu was released
			buf.unref()
			return 0, nil
		}
		f.insertDirty(buf, cred, p, off, how)
	}
	f.accepted(off, len(p))
	return len(p), nil
}

// blockEnd returns the next multiple of WriteSize after off.
func (f *File) blockEnd(off int64) int64 {
	size := int64(f.engine.cfg.WriteSize)
	return off - off%size + size
}

// overwrite copies p into the dirty extent at off, and returns the number of bytes copied.
func (f *File) overwrite(cred Cred, p []byte, off int64, how nfs3.StableHow) int {
	i := f.search(off)
	if i == len(f.ext) {
		return 0
	}
	x := f.ext[i]
	if x.off > off || x.state != dirty || x.cred != cred {
		return 0
	}
	n := copy(x.data[off-x.off:], p)
	x.how = max(x.how, how)
	f.queueIfDue(x)
	f.accepted(off, n)
	return n
}

// extend appends p to the dirty extent ending at off if there is memory.
func (f *File) extend(cred Cred, p []byte, off int64, how nfs3.StableHow) bool {
	i := f.search(off)
	if i == 0 || i < len(f.ext) && f.ext[i].off < off+int64(len(p)) {
		return false
	}
	x := f.ext[i-1]
	if x.end() != off || x.state != dirty || x.cred != cred || x.off < f.blockEnd(off)-int64(f.engine.cfg.WriteSize) {
		return false
	}
	if cap(x.data)-len(x.data) < len(p) && !f.grow(x, len(x.data)+len(p)) {
		return false
	}
	x.data = append(x.data, p...)
	f.count(dirty, len(p))
	x.how = max(x.how, how)
	f.queueIfDue(x)
	return true
}

// grow moves a dirty extent's data to a larger buffer.
func (f *File) grow(x *extent, least int) bool {
	size := f.bufferSize(x.off, least, f.writeEnd == x.end())
	if !f.engine.written.take(&f.written, charge(size)) {
		return false
	}
	buf := newBuffer(f.engine.written, &f.written, size)
	f.move(x, buf)
	return true
}

// move moves a dirty extent's data to another buffer.
func (f *File) move(x *extent, buf *buffer) {
	room := min(int64(cap(buf.m.B)), f.blockEnd(x.off)-x.off)
	data := buf.bytes()[:len(x.data):room]
	copy(data, x.data)
	x.buf.unref()
	x.data, x.buf = data, buf
}

// bufferSize returns the buffer size for at least least bytes at off. Sequential writes get a
// larger buffer, up to the end of the block. Its size grows with the streak, so a small file takes
// little memory and a stream copies little.
func (f *File) bufferSize(off int64, least int, row bool) int {
	size := int64(least)
	if row {
		size += f.streak
	}
	return int(min(size, f.blockEnd(off)-off))
}

// waitMemory takes n bytes for written data when they are available. It releases f.mu while it
// waits.
func (f *File) waitMemory(ctx context.Context, n int64) error {
	e := f.engine
	f.waiting++
	f.progress()
	f.mu.Unlock()
	e.waits.Add(1)
	w := e.waiters.get()
	if !e.written.join(w, &f.written, n) && e.scarce() {
		e.each(func(g *File) {
			g.mu.Lock()
			g.progress()
			g.mu.Unlock()
		})
	}
	err := e.written.await(ctx, w)
	e.waiters.put(w)
	f.mu.Lock()
	f.waiting--
	return err
}

// scarce reports whether a writer waits for memory. Any File may have that memory, so all Files
// should return some.
func (e *Engine) scarce() bool {
	return e.written.waiting.Load() > 0 && e.written.total-e.written.used() < 2*charge(e.cfg.WriteSize)
}

// insertDirty makes a dirty extent from p and replaces older data in its range.
func (f *File) insertDirty(buf *buffer, cred Cred, p []byte, off int64, how nfs3.StableHow) {
	owed := f.carve(off, off+int64(len(p)))
	x := extents.Get().(*extent)
	room := min(cap(buf.m.B), int(f.blockEnd(off)-off))
	*x = extent{off: off, data: buf.bytes()[:len(p):room], buf: buf, cred: cred, state: dirty, seq: f.seq, how: max(how, owed.how)}
	copy(x.data, p)
	if owed.seq > 0 {
		x.seq = owed.seq // waiters for the replaced data now wait for x
	}
	f.add(f.search(off), x)
	f.queueIfDue(x)
}

// accepted is called after n bytes were copied at off.
func (f *File) accepted(off int64, n int) {
	end := off + int64(n)
	if off == f.writeEnd {
		f.streak += int64(n)
	} else {
		f.streak = int64(n)
	}
	f.writeEnd = end
	f.overwritten(off, end)
	f.noteAge()
	f.progress()
}
