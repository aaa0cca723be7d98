// File: one file's state, shared by all its Handles.

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

// A File has the Engine's data for one file: written data that is not stable yet, and read-ahead.
type File struct {
	// set once
	engine   *Engine
	fh       nfs3.FH
	commitFn func() // runCommit, made once so that starting it does not allocate

	refs int // guarded by Engine.mu

	written account // of Engine.written
	ahead   account // of Engine.read

	mu      sync.Mutex // guards all that follows, all extents, and the Handles' streams
	handles []*Handle
	waiters waitList // for any change of the fields below

	// errors
	orphan       error // error from a time without Handles; the next Open passes it to its Handle
	failures     uint64
	lastError    error
	writeThrough bool // the server's disk was full: each Write waits for its WRITE
	discarded    bool // the file is removed
	abandoned    bool // the Engine is closed

	// written data
	ext        []*extent  // by offset, without overlap
	bytes      [3]int64   // bytes of ext, by state
	ops        []*writeOp // WRITEs in flight
	queueHead  *extent    // dirty extents to send
	queueTail  *extent
	seq        uint64    // counts Writes
	pushed     uint64    // number of the last Write to send now
	writeEnd   int64     // end of the last Write
	streak     int64     // bytes of consecutive Writes
	since      time.Time // when the oldest data became dirty or unstable; zero: no data
	truncating bool      // a Truncate runs: no Write is accepted, no WRITE sent
	waiting    int       // writers waiting for memory

	commits commits

	// read-ahead
	pieces  []*piece // by offset, without overlap
	fetches int      // READs of pieces in flight, including dropped ones
	limit   int64    // the known size; -1: unknown
	eofAt   int64    // end of file found by read-ahead, not returned yet; -1: none
}

// newFile returns a File without data. A quarter of the read memory stays free for other files'
// read-ahead. The caller holds e.mu.
func newFile(e *Engine, fh nfs3.FH) *File {
	f := &File{engine: e, fh: fh, limit: -1, eofAt: -1, abandoned: e.closed}
	f.commitFn = f.runCommit
	f.written.limit = e.cfg.DirtyFile
	f.ahead.limit, f.ahead.reserve = unbounded, e.read.total/4
	return f
}

// Release undoes one Engine.File.
func (f *File) Release() {
	f.engine.mu.Lock()
	f.refs--
	f.engine.mu.Unlock()
	f.mu.Lock()
	f.unlock()
}

// unlock unlocks the File, and removes it from the Engine if it is unused. Call it wherever a File
// may have become idle.
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

// idle reports whether the File has no data and no calls in flight. Overwritten or truncated data
// without a COMMIT does not count.
func (f *File) idle() bool {
	return len(f.ext) == 0 && len(f.ops) == 0 && !f.commits.running && len(f.pieces) == 0 && f.fetches == 0
}

// Open returns a Handle, which keeps the File until it is closed. The Handle returns a write error
// from a time without Handles.
func (f *File) Open() *Handle {
	f.engine.File(f.fh)
	f.mu.Lock()
	defer f.mu.Unlock()
	h := &Handle{file: f, err: f.orphan}
	f.orphan = nil
	f.handles = append(f.handles, h)
	return h
}

// fail records a WRITE or COMMIT error for all Handles.
func (f *File) fail(err error) {
	if f.discarded {
		return
	}
	f.engine.errors.Add(1)
	f.failures++
	f.lastError = err
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		f.writeThrough = true
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

// close ends a Handle. Closing the last Handle drops all read-ahead.
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

// End returns the end of written data possibly not yet on the server, or 0. The file's size is the
// larger of End and the server's size.
func (f *File) End() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lastEnd()
}

// Dirty reports whether data waits to be sent or is being sent. While it returns true, the server's
// size and mtime are not final.
func (f *File) Dirty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes[dirty] > 0 || len(f.ops) > 0
}

// Discard drops all written data and all errors: the file is removed and cannot be read again. It
// does not wait for WRITEs in flight.
func (f *File) Discard() {
	f.mu.Lock()
	f.discarded, f.orphan = true, nil
	for _, h := range f.handles {
		h.err = nil
	}
	f.drop()
	f.unlock()
}

// drop drops all data.
func (f *File) drop() {
	f.carve(0, unbounded)
	f.dropPieces(0, unbounded)
	f.changed()
}

// abandon ends a File after its Engine was closed.
func (f *File) abandon() {
	f.mu.Lock()
	f.abandoned = true
	if len(f.ext) > 0 {
		f.fail(ErrClosed)
	}
	f.discarded = true // the errors of WRITEs in flight are already counted
	f.drop()
	f.unlock()
}

// noteAge records the time when a File without data got data, and arms the ticker.
func (f *File) noteAge() {
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

// changed is called after data was sent, committed or dropped. It wakes all waiters.
func (f *File) changed() {
	f.noteAge()
	f.waiters.wake()
	f.progress()
}

// wait waits for the File's next change. The caller holds f.mu; wait releases it meanwhile.
func (f *File) wait(ctx context.Context) error {
	if f.abandoned {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.waiters.wait(ctx, &f.mu, &f.engine.waiters)
}
