// Engine: the files of a mount, and their shared state.

package datapath

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// ErrClosed is the error for calls on a closed Engine or Handle.
var ErrClosed = errors.New("the data path is closed")

// An Engine is the data path of one mount. It is safe for concurrent use, and so are its Files and
// Handles.
//
// Lock order: File.mu, then Engine.mu or a budget's mu. No goroutine holds two Files' locks. Server
// calls and callbacks run without locks.
type Engine struct {
	// set once
	cfg    Config
	srv    Server
	ctx    context.Context // for all calls without a waiting reader; ends in Close
	cancel context.CancelFunc

	written *budget // memory of extents
	read    *budget // memory of pieces

	waiters waiterPool
	running sync.WaitGroup // background calls
	bytes   [3]atomic.Int64
	counters

	mu     sync.Mutex // guards all that follows, and File.refs
	files  map[nfs3.FH]*File
	closed bool
	ticker *time.Timer // nil until first needed

	ticking atomic.Bool // the ticker is set; changed under mu
}

// setDefault sets *v to value if *v is 0, then raises *v to least if it is lower.
func setDefault[T int | int64 | time.Duration](v *T, value, least T) {
	if *v == 0 {
		*v = value
	}
	*v = max(*v, least)
}

// setDefaults fills in defaults and raises values below their minimum.
func (c *Config) setDefaults() {
	setDefault(&c.ReadSize, 1<<20, 1)
	setDefault(&c.WriteSize, 1<<20, 1)
	if c.ReadAhead >= 0 {
		setDefault(&c.ReadAhead, 16<<20, 2*c.ReadSize)
	}
	setDefault(&c.ReadMemory, 128<<20, 4*charge(c.ReadSize))
	setDefault(&c.DirtyFile, 64<<20, 2*charge(c.WriteSize))
	setDefault(&c.DirtyMount, 256<<20, 4*charge(c.WriteSize))
	setDefault(&c.FlushAfter, 2*time.Second, time.Millisecond)
}

// New returns an Engine that calls srv. Close ends it.
func New(cfg Config, srv Server) *Engine {
	cfg.setDefaults()
	e := &Engine{cfg: cfg, srv: srv, files: map[nfs3.FH]*File{}}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.written, e.read = newBudget(cfg.DirtyMount), newBudget(cfg.ReadMemory)
	return e
}

// File returns the state of a file. The File lives until each File call had a Release, all its
// Handles are closed, and its data is written.
func (e *Engine) File(fh nfs3.FH) *File {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.files[fh]
	if f == nil {
		f = newFile(e, fh)
		e.files[fh] = f
	}
	f.refs++
	return f
}

// each calls do for every present File, without holding a lock.
func (e *Engine) each(do func(*File)) {
	e.mu.Lock()
	files := make([]*File, 0, len(e.files))
	for _, f := range e.files {
		files = append(files, f)
	}
	e.mu.Unlock()
	for _, f := range files {
		do(f)
	}
}

// Sync makes all data written to any file so far stable. It returns ctx's error, or the error of a
// WRITE or COMMIT during the call. Each Handle still returns its own errors.
func (e *Engine) Sync(ctx context.Context) error {
	e.each(func(f *File) { // start all files at once
		f.mu.Lock()
		f.push(f.seq)
		f.progress()
		f.mu.Unlock()
	})
	var first error
	e.each(func(f *File) {
		if err := f.syncAll(ctx); first == nil {
			first = err
		}
	})
	return first
}

// Close makes all data stable like Sync, then ends the Engine. If ctx ends first, unwritten data is
// lost and Config.Lost is called. Later calls fail.
func (e *Engine) Close(ctx context.Context) error {
	err := e.Sync(ctx)
	e.mu.Lock()
	e.closed = true
	if e.ticker != nil {
		e.ticker.Stop()
	}
	e.mu.Unlock()
	e.each((*File).abandon) // first, so that files report ErrClosed instead of canceled calls
	e.cancel()
	e.running.Wait()
	return err
}
