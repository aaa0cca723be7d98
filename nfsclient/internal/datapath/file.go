// File: the state of one file, shared by all who have it open.

package datapath

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A File is what the Engine has of one file: written data that is not stable yet, and
// data read ahead.
type File struct {
	// set once
	engine   *Engine
	fh       nfs3.FH
	commitFn func() // runCommit, made once so that starting it does not allocate

	refs int // guarded by Engine.mu

	written account // of Engine.written
	ahead   account // of Engine.read

	mu      sync.Mutex // guards all that follows, all extents, and the streams of Handles
	handles []*Handle
	waiters waitList // for any change of what follows

	// errors
	orphan    error // of a time when nobody had the file open; the next Open is told
	failures  uint64
	lastError error
	through   bool // the server was full: each Write waits for its WRITE
	discarded bool // the file is removed
	abandoned bool // the Engine is closed

	// written data
	ext        []*extent // by offset, not overlapping
	bytes      [3]int64  // of ext, by state
	ops        []*op     // WRITEs on their way
	queueHead  *extent   // dirty extents that are to be sent
	queueTail  *extent
	seq        uint64    // counts Writes
	pushed     uint64    // Writes up to this one are to be sent now
	writeEnd   int64     // where the last Write ended
	streak     int64     // bytes of Writes in a row, each where the one before it ended
	since      time.Time // when the oldest data became dirty or unstable; zero: there is none
	truncating bool      // no Writes, no WRITEs
	waiting    int       // writers that wait for memory

	commits commits

	// data read
	pieces  []*piece // by offset, not overlapping
	fetches int      // pieces being fetched, dropped ones too
	limit   int64    // the size that is known; -1: none
	eofAt   int64    // read-ahead has found that the file ends here, and no reader has been told; -1: none
}

func newFile(e *Engine, fh nfs3.FH) *File {
	f := &File{engine: e, fh: fh, limit: -1, eofAt: -1, abandoned: e.closed}
	f.commitFn = f.runCommit
	f.written.most = e.cfg.DirtyFile
	f.ahead.most, f.ahead.leave = unbounded, e.read.total/4
	return f
}

// Release gives back what Engine.File returned.
func (f *File) Release() {
	f.engine.mu.Lock()
	f.refs--
	f.engine.mu.Unlock()
	f.mu.Lock()
	f.unlock()
}

// unlock unlocks the File, and forgets it when nothing needs it any more. It is called
// wherever a File may have become idle.
func (f *File) unlock() {
	var lost error
	if f.idle() {
		e := f.engine
		e.mu.Lock()
		if f.refs == 0 && e.files[f.fh] == f {
			delete(e.files, f.fh)
			lost, f.orphan = f.orphan, nil
		}
		e.mu.Unlock()
	}
	f.mu.Unlock()
	if lost != nil && f.engine.cfg.Lost != nil {
		f.engine.cfg.Lost(f.fh, lost)
	}
}

// idle reports whether nothing is held or under way. What is left uncommitted of data
// that is overwritten or cut is of no interest then.
func (f *File) idle() bool {
	return len(f.ext) == 0 && len(f.ops) == 0 && !f.commits.running && len(f.pieces) == 0 && f.fetches == 0
}

// Open returns a Handle, which keeps the File until it is closed. A write error that
// nobody was told of, since nobody had the file open, is told to it.
func (f *File) Open() *Handle {
	f.engine.File(f.fh)
	f.mu.Lock()
	defer f.mu.Unlock()
	h := &Handle{file: f, err: f.orphan}
	f.orphan = nil
	f.handles = append(f.handles, h)
	return h
}

// fail records the error of a WRITE or COMMIT for all who have the file open.
func (f *File) fail(err error) {
	if f.discarded {
		return
	}
	f.engine.errors.Add(1)
	f.failures++
	f.lastError = err
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		f.through = true
	}
	for _, h := range f.handles {
		if h.err == nil {
			h.err = err
		}
	}
	if len(f.handles) == 0 && f.orphan == nil {
		f.orphan = err
	}
}

// close ends the use of a Handle. Without any, nobody will want what was read ahead.
func (f *File) close(h *Handle) error {
	f.mu.Lock()
	i := slices.Index(f.handles, h)
	if i < 0 {
		f.mu.Unlock()
		return ErrClosed
	}
	f.handles = slices.Delete(f.handles, i, i+1)
	err := h.err
	h.err = nil
	if len(f.handles) == 0 {
		f.dropPieces(0, unbounded)
	}
	f.mu.Unlock()
	f.Release()
	return err
}

// End returns where the written data ends that the server has maybe not got yet, and 0
// when there is none: the size of the file is the larger of End and what the server reports.
func (f *File) End() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lastEnd()
}

// Dirty reports whether data waits to be sent or is being sent, so that the
// attributes on the server are not yet what they will be (size, mtime).
func (f *File) Dirty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes[dirty] > 0 || len(f.ops) > 0
}

// Discard forgets all written data and all errors: the file has been removed, and nobody
// can read it again. WRITEs on their way are not waited for.
func (f *File) Discard() {
	f.mu.Lock()
	f.discarded, f.orphan = true, nil
	for _, h := range f.handles {
		h.err = nil
	}
	f.drop()
	f.unlock()
}

// drop forgets all data.
func (f *File) drop() {
	f.carve(0, unbounded)
	f.dropPieces(0, unbounded)
	f.settle()
}

// abandon ends a File of an Engine that is closed.
func (f *File) abandon() {
	f.mu.Lock()
	f.abandoned = true
	if len(f.ext) > 0 {
		f.fail(ErrClosed)
	}
	f.discarded = true // WRITEs that end now were counted
	f.drop()
	f.unlock()
}

// note remembers since when there is data that grows old.
func (f *File) note() {
	switch {
	case len(f.ext) == 0:
		f.since = time.Time{}
	case f.since.IsZero():
		f.since = time.Now()
	}
	if len(f.ext) > 0 || len(f.pieces) > 0 {
		f.engine.arm()
	}
}

// settle is called when data has been sent, committed or forgotten, which somebody may
// be waiting for.
func (f *File) settle() {
	f.note()
	f.waiters.wake()
	f.progress()
}

// wait waits for the next change of the File, with its lock held before and after.
func (f *File) wait(ctx context.Context) error {
	if f.abandoned {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.waiters.wait(ctx, &f.mu, &f.engine.waiters)
}
