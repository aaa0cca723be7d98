// Read-ahead: pieces of a file that are fetched before somebody asks for them.

package datapath

import (
	"slices"
	"sync"
	"time"
)

// A piece is a range that was read ahead. It is in the File's list from before its READ is
// sent, and stays until a reader has had all of it, it has grown old, or it is
// dropped.
//
// A piece that is in the list has not been written to since before its READ was sent: none is begun
// where there is written data, and a Write drops those that it touches. One that is
// dropped while its READ is on its way is stale: when the reply comes it is thrown away.
type piece struct {
	file *File
	off  int64
	want int // bytes asked for
	buf  *buffer
	cred Cred
	fn   func() // run, made once so that starting it does not allocate

	ready     bool // data is there; until then it is being fetched
	stale     bool // not in the list any more
	eof       bool // ready: the file ended after data
	grown     bool // the file is longer than the READ may find: its end means nothing
	data      []byte
	delivered int       // bytes of data that readers had
	when      time.Time // ready: since when
}

var piecePool sync.Pool

func newPiece() *piece {
	if p, _ := piecePool.Get().(*piece); p != nil {
		return p
	}
	p := new(piece)
	p.fn = p.run
	return p
}

// end is where the piece ends as far as it is known.
func (p *piece) end() int64 {
	if p.ready {
		return p.off + int64(len(p.data))
	}
	return p.off + int64(p.want)
}

// ends reports whether the file is known to end at off, by what the piece has found there. No
// written data is after it then: see grown.
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

// readAhead asks for what a stream should have ahead of it, in pieces that end where a
// READ of full size would, so that later reads of that size find all in one.
func (f *File) readAhead(s *stream, cred Cred) {
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
				return // when the window has moved on it can be a whole one
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

// freeUntil returns the end of the range from off on, up to end, in which there is neither a
// piece nor written data. (A WRITE on its way has newer data of its range in extents, or its own.)
func (f *File) freeUntil(off, end int64) int64 {
	if i := f.searchPiece(off); i < len(f.pieces) {
		end = min(end, f.pieces[i].off)
	}
	if i := f.search(off); i < len(f.ext) {
		end = min(end, f.ext[i].off)
	}
	return end
}

// fetch begins a piece, if there is memory.
func (f *File) fetch(off int64, n int, cred Cred) bool {
	e := f.engine
	if !e.read.take(&f.ahead, charge(n)) {
		return false
	}
	p := newPiece()
	p.file, p.off, p.want, p.cred, p.buf = f, off, n, cred, newBuffer(e.read, &f.ahead, n)
	p.grown = f.lastEnd() > off // written data is after it: the server's file may end before that until it is sent
	f.pieces = slices.Insert(f.pieces, f.searchPiece(off), p)
	f.fetches++
	e.running.Add(1)
	go p.fn()
	return true
}

// run reads the piece.
func (p *piece) run() {
	f := p.file
	e := f.engine
	defer e.running.Done()
	n, eof, err := f.readOne(e.ctx, p.cred, p.buf.bytes()[:p.want], p.off)
	f.mu.Lock()
	f.fetches--
	e.fetched.Add(int64(n))
	if err != nil && !p.stale {
		f.removePiece(slices.Index(f.pieces, p)) // who waits for it asks himself, and gets his own error
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
	f.settle()
	f.unlock()
}

// free ends the use of a piece that is not in the list.
func (p *piece) free() {
	p.buf.unref()
	*p = piece{fn: p.fn}
	piecePool.Put(p)
}

// removePiece takes the piece at i out of the list.
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

// dropPieces takes all pieces of [off, end) out of the list. Those who wait for one of them look
// again.
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

// dropOld drops the pieces that were fetched before that time.
func (f *File) dropOld(before time.Time) {
	for i := len(f.pieces) - 1; i >= 0; i-- {
		if p := f.pieces[i]; p.ready && p.when.Before(before) {
			f.removePiece(i)
		}
	}
}

// overwritten is called when [off, end) was written to: pieces of it are stale, and the file may
// end elsewhere than the others say.
func (f *File) overwritten(off, end int64) {
	f.dropPieces(off, end)
	f.noEnd()
	if f.limit >= 0 {
		f.limit = max(f.limit, end)
	}
}

// noEnd is called when the file may have grown: where pieces have found its end means nothing.
func (f *File) noEnd() {
	for _, p := range f.pieces {
		p.eof, p.grown = false, true
	}
	f.eofAt = -1
}

// delivered counts n bytes of a piece that a reader had, and drops it when that was the last of it.
func (f *File) delivered(p *piece, n int) {
	p.delivered += n
	f.engine.hits.Add(int64(n))
	if p.delivered < len(p.data) {
		return
	}
	f.removePiece(slices.Index(f.pieces, p))
}

// SetSize tells the size of the file that the server has reported, in bytes, so that
// nothing is read ahead after it. It is a hint: a wrong one costs speed only.
func (f *File) SetSize(size int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if size != f.limit {
		f.noEnd()
	}
	f.limit = size
}

// Invalidate drops what was read ahead, what is on its way included. Call it when the
// file was changed by someone else, and when a lock has been granted.
func (f *File) Invalidate() {
	f.mu.Lock()
	defer f.unlock()
	f.dropPieces(0, unbounded)
	f.limit = -1
}
