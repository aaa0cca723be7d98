// View: a read that lends the Engine's memory if possible.

package datapath

import (
	"context"
	"syscall"
)

// A View is a range in a file. The zero View is empty.
type View struct {
	Data []byte // valid until Release; read only. With an error: the data before the error
	eof  bool   // the file is known to end after Data
	buf  *buffer
}

// Release returns the memory. Call it once for each View.
func (v *View) Release() {
	if v.buf != nil {
		v.buf.unref()
	}
	*v = View{}
}

// View is Read that does not copy if one piece of read-ahead has the whole range. Data is then the
// Engine's memory with the READ data, otherwise the front of p.
func (h *Handle) View(ctx context.Context, cred Cred, p []byte, off int64) (View, error) {
	if off < 0 {
		return View{}, syscall.EINVAL
	}
	f := h.file
	f.mu.Lock()
	defer f.mu.Unlock()
	h.noteRead(cred, off, len(p))
	v, ok, err := f.viewAhead(ctx, len(p), off)
	if ok || err != nil {
		return v, err
	}
	n, eof, err := f.read(ctx, cred, p, off, true)
	return View{Data: p[:n:n], eof: eof}, err
}

// viewAhead lends a piece with the whole range, and waits for its READ.
func (f *File) viewAhead(ctx context.Context, size int, off int64) (v View, ok bool, err error) {
	end := off + int64(size)
	for {
		i := f.searchPiece(off)
		if size == 0 || i == len(f.pieces) || f.pieces[i].off > off {
			return View{}, false, nil
		}
		p := f.pieces[i]
		if !p.ready { // the file may end in this piece
			if err := f.wait(ctx); err != nil {
				return View{}, false, err
			}
			continue
		}
		if p.end() < end && !p.ends(p.end()) {
			return View{}, false, nil
		}
		to := min(end, p.end())
		data := p.data[off-p.off : to-p.off]
		v = View{Data: data[:len(data):len(data)], eof: p.ends(to), buf: p.buf.ref()}
		f.delivered(p, len(data))
		return v, true, nil
	}
}
