// View: a read that lends the Engine's own memory.

package datapath

import (
	"context"
	"syscall"
)

// A View is bytes of a file. The zero View is of none.
type View struct {
	Data []byte // valid until Release; read only
	EOF  bool   // the file is known to end after Data
	buf  *buffer
}

// Release gives the memory back. It must be called once for each View.
func (v *View) Release() {
	if v.buf != nil {
		v.buf.unref()
	}
	*v = View{}
}

// View is Read without a copy where that can be: the data is in memory of the Engine, the
// very memory that READ was answered to. At most size bytes are returned, fewer only
// at the end of the file or before an error.
func (h *Handle) View(ctx context.Context, cred Cred, size int, off int64) (View, error) {
	if off < 0 || size < 0 {
		return View{}, syscall.EINVAL
	}
	f := h.file
	f.mu.Lock()
	h.noteRead(cred, off, size)
	v, ok, err := f.viewAhead(ctx, size, off)
	f.mu.Unlock()
	if ok || err != nil || size == 0 {
		return v, err
	}
	buf, err := f.engine.viewBuffer(ctx, size)
	if err != nil {
		return View{}, err
	}
	f.mu.Lock()
	n, eof, err := f.read(ctx, cred, buf.bytes()[:size], off, true)
	f.mu.Unlock()
	if n == 0 && err != nil {
		buf.unref()
		return View{}, err
	}
	return View{Data: buf.bytes()[:n:n], EOF: eof, buf: buf}, nil
}

// viewAhead lends a piece that has all that is asked for, and waits for it.
func (f *File) viewAhead(ctx context.Context, size int, off int64) (v View, ok bool, err error) {
	end := off + int64(size)
	for {
		i := f.searchPiece(off)
		if size == 0 || i == len(f.pieces) || f.pieces[i].off > off {
			return View{}, false, nil
		}
		p := f.pieces[i]
		if p.end() < end && !p.ends(p.end()) {
			return View{}, false, nil
		}
		if p.ready {
			to := min(end, p.end())
			data := p.data[off-p.off : to-p.off]
			v = View{Data: data[:len(data):len(data)], EOF: p.ends(to), buf: p.buf.ref()}
			f.delivered(p, len(data))
			return v, true, nil
		}
		if err := f.wait(ctx); err != nil {
			return View{}, false, err
		}
	}
}

// viewBuffer returns memory for a View, which it may have to wait for. What was read ahead
// gives way to it.
func (e *Engine) viewBuffer(ctx context.Context, size int) (*buffer, error) {
	n := charge(size)
	if n > e.read.total {
		return nil, syscall.EINVAL
	}
	if !e.read.take(&e.views, n) {
		w := e.waiters.get()
		if !e.read.join(w, &e.views, n) {
			e.each(func(f *File) {
				f.mu.Lock()
				for i := len(f.pieces) - 1; i >= 0; i-- {
					if f.pieces[i].ready {
						f.removePiece(i)
					}
				}
				f.unlock()
			})
		}
		err := e.read.await(ctx, w)
		e.waiters.put(w)
		if err != nil {
			return nil, err
		}
	}
	return newBuffer(e.read, &e.views, size), nil
}
