// File: the state of one file, shared by all who have it open.

package datapath

import (
	"context"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A File is what the Engine has of one file: written data that is not stable yet, and
// data read ahead.
type File struct {
	engine *Engine
	fh     nfs3.FH
	refs   int
}

// Release gives back what Engine.File returned.
func (f *File) Release() {
	e := f.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.refs--; f.refs == 0 {
		delete(e.files, f.fh)
	}
}

// Open returns a Handle, which keeps the File until it is closed. A write error that
// nobody was told of, since nobody had the file open, is told to it.
func (f *File) Open() *Handle {
	f.engine.File(f.fh)
	return &Handle{file: f}
}

// SetSize tells the size of the file that the server has reported, in bytes, so that
// nothing is read ahead after it. It is a hint: a wrong one costs speed only.
func (f *File) SetSize(size int64) {}

// End returns where the written data ends that the server possibly lacks yet, and 0 when
// there is none: the size of the file is the larger of End and what the server says.
func (f *File) End() int64 { return 0 }

// Dirty reports whether data waits to be sent or is being sent, so that the
// attributes on the server are not yet what they will be (size, mtime).
func (f *File) Dirty() bool { return false }

// Invalidate drops what was read ahead, what is on its way included. Call it when the
// file was changed by someone else, and when a lock has been granted.
func (f *File) Invalidate() {}

// WriteOut waits until all data written before it is at the server, though maybe not on
// stable storage. Call it before SETATTR of mode, owner or times, which later WRITEs
// would fail by or undo, and before GETATTR where the exact mtime counts. Write
// errors are left to the Handles; the error is the context's.
func (f *File) WriteOut(ctx context.Context) error { return ctx.Err() }

// Truncate orders a change of size with reads and writes: it waits for WRITEs on their
// way that lie beyond size, then calls do, which sets the size on the server; when that
// returns nil, written data beyond size is forgotten. Writes wait meanwhile.
// do must not call methods of the File or its Handles.
func (f *File) Truncate(ctx context.Context, size int64, do func(context.Context) error) error {
	return do(ctx)
}

// Discard forgets all written data that the server does not have yet, and all errors:
// the file has been removed, and nobody can read it again.
func (f *File) Discard() {}
