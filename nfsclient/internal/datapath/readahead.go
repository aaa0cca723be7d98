// Read-ahead: pieces of a file fetched before a reader asks for them.

package datapath

import (
	"slices"
	"sync"
	"time"
)

// A piece is a range read ahead. It enters the File's list before its READ is sent. The piece stays
// until readers have all its data, it is too old, or it is dropped.
//
// No Write has touched a listed piece since before its READ was sent: no piece is begun over
// written data, and a Write drops the pieces it touches. A piece dropped during its READ is stale,
// and its reply is discarded.
type piece struct {
	file *File
	off  int64
	want int // bytes requested
	buf  *buffer
	cred Cred
	fn   func() // run, made once so that starting it does not allocate

	ready     bool // the READ has ended and data is valid
	stale     bool // no longer in the list
	eof       bool // ready: the file ended after data
	grown     bool // the file is longer than the READ may find: ignore its end
	data      []byte
	delivered int       // bytes of data that readers had
	when      time.Time // ready: the time when the READ ended
}

// piecePool reuses pieces with their fn, so that read-ahead does not allocate.
var piecePool sync.Pool

// newPiece returns a cleared piece with fn set.
func newPiece() *piece {
	if p, _ := piecePool.Get().(*piece); p != nil {
		return p
	}
	p := new(piece)
	p.fn = p.run
	return p
}

// end returns the piece's known end.
func (p *piece) end() int64 {
	if p.ready {
		return p.off + int64(len(p.data))
	}
	return p.off + int64(p.want)
}

// ends reports whether the piece shows that the file ends at off. Then no written data follows it:
// see grown.
func (p *piece) ends(off int64) bool { return p.ready && p.eof && p.end() == off }

// searchPiece returns the index of the first piece that ends after off.
func (f *File) searchPiece(off int64) int {
	lo, hi := 0, len(f.pieces)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if f.pieces[mid].end() > off {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// readAhead fetches a stream's window. Pieces end at multiples of ReadSize, so that each later read
// of that size needs only one piece. The caller holds f.mu.
func (f *File) readAhead(s *readStream, cred Cred) {
	size := int64(f.engine.cfg.ReadSize)
	for s.asked = max(s.asked, s.next); s.asked < s.next+s.window && !f.abandoned; {
		off := s.asked
		if i := f.searchPiece(off); i < len(f.pieces) && f.pieces[i].off <= off {
			s.asked = f.pieces[i].end()
			continue
		}
		if i := f.search(off); i < len(f.ext) && f.ext[i].off <= off {
			s.asked = f.ext[i].end()
			continue
		}
		end := off - off%size + size
		if last := s.next + s.window; end > last {
			if off > s.next {
				return // fetch later, when a whole piece fits in the window
			}
			end = last
		}
		if f.limit >= 0 {
			end = min(end, f.limit)
		}
		end = f.freeUntil(off, end)
		if end <= off || !f.fetch(off, int(end-off), cred) {
			return
		}
		s.asked = end
	}
}

// freeUntil returns where the range at off without pieces and written data stops, at most end. It
// need not check WRITEs in flight, because extents have their data or newer data.
func (f *File) freeUntil(off, end int64) int64 {
	if i := f.searchPiece(off); i < len(f.pieces) {
		end = min(end, f.pieces[i].off)
	}
	if i := f.search(off); i < len(f.ext) {
		end = min(end, f.ext[i].off)
	}
	return end
}

// fetch starts a piece if there is memory.
func (f *File) fetch(off int64, n int, cred Cred) bool {
	e := f.engine
	if !e.read.take(&f.ahead, charge(n)) {
		return false
	}
	p := newPiece()
	p.file, p.off, p.want, p.cred, p.buf = f, off, n, cred, newBuffer(e.read, &f.ahead, n)
	// Written data follows the piece. Until that data is sent, the server's file may end before it.
	p.grown = f.lastEnd() > off
	f.pieces = slices.Insert(f.pieces, f.searchPiece(off), p)
	f.fetches++
	e.running.Add(1)
	go p.fn()
	return true
}

// run sends the piece's READ and handles the reply.
func (p *piece) run() {
	f := p.file
	e := f.engine
	defer e.running.Done()
	n, eof, err := f.readOne(e.ctx, p.cred, p.buf.bytes()[:p.want], p.off)
	f.mu.Lock()
	f.fetches--
	e.fetched.Add(int64(n))
	if err != nil && !p.stale {
		f.removePiece(slices.Index(f.pieces, p)) // a waiting reader sends a READ and gets its error
	}
	if p.stale {
		e.waste.Add(int64(n))
		p.free()
	} else {
		p.ready, p.data, p.eof, p.when = true, p.buf.bytes()[:n], eof && !p.grown, time.Now()
		if p.eof {
			f.limit = p.end()
			f.dropPieces(p.end(), unbounded)
			if n == 0 {
				f.eofAt = p.off
			}
		}
		if n == 0 {
			f.removePiece(slices.Index(f.pieces, p))
		}
	}
	f.changed()
	f.unlock()
}

// free releases a piece that is not in the list.
func (p *piece) free() {
	p.buf.unref()
	*p = piece{fn: p.fn}
	piecePool.Put(p)
}

// removePiece removes the piece at i from the list.
func (f *File) removePiece(i int) {
	p := f.pieces[i]
	f.pieces = slices.Delete(f.pieces, i, i+1)
	if !p.ready {
		p.stale = true
		return
	}
	f.engine.waste.Add(int64(max(len(p.data)-p.delivered, 0)))
	p.free()
}

// dropPieces removes all pieces in [off, end) from the list. Readers waiting for a dropped piece
// search again.
func (f *File) dropPieces(off, end int64) {
	i, n := f.searchPiece(off), len(f.pieces)
	for i < len(f.pieces) && f.pieces[i].off < end {
		f.removePiece(i)
	}
	if len(f.pieces) < n {
		f.waiters.wake()
	}
	f.eofAt = -1
}

// dropOld drops the pieces fetched before the time before.
func (f *File) dropOld(before time.Time) {
	for i := len(f.pieces) - 1; i >= 0; i-- {
		if p := f.pieces[i]; p.ready && p.when.Before(before) {
			f.removePiece(i)
		}
	}
}

// overwritten is called after a write to [off, end). It drops pieces there, and the file's end in
// other pieces is no longer valid.
func (f *File) overwritten(off, end int64) {
	f.dropPieces(off, end)
	f.forgetEnd()
	if f.limit >= 0 {
		f.limit = max(f.limit, end)
	}
}

// forgetEnd is called if the file may have grown: it forgets the end found by pieces.
func (f *File) forgetEnd() {
	for _, p := range f.pieces {
		p.eof, p.grown = false, true
	}
	f.eofAt = -1
}

// delivered counts n bytes of p copied to a reader, and drops p after its last byte.
func (f *File) delivered(p *piece, n int) {
	p.delivered += n
	f.engine.hits.Add(int64(n))
	if p.delivered < len(p.data) {
		return
	}
	f.removePiece(slices.Index(f.pieces, p))
}

// SetSize sets the file size reported by the server, in bytes. Nothing is read ahead beyond it. A
// wrong size costs only speed.
func (f *File) SetSize(size int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if size != f.limit {
		f.forgetEnd()
	}
	f.limit = size
}

// Invalidate drops all read-ahead, including READs in flight. Call it after a foreign change to the
// file, and after a granted lock.
func (f *File) Invalidate() {
	f.mu.Lock()
	defer f.unlock()
	f.dropPieces(0, unbounded)
	f.limit = -1
}
