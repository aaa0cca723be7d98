// Engine: the files of a mount, and what they share.

package datapath

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// ErrClosed is the error of calls on an Engine or a Handle that has been closed.
var ErrClosed = errors.New("the data path is closed")

// An Engine is the data path of one mount. It is safe for concurrent use, as are
// all its Files and Handles.
//
// Locks, outermost first: File.mu, then Engine.mu or a budget's. A File's lock is not taken
// while another's is held. No call of the Server and no callback runs under a lock.
type Engine struct {
	// set once
	cfg    Config
	srv    Server
	ctx    context.Context // of all calls that no reader waits for; ends in Close
	cancel context.CancelFunc

	written *budget // memory of extents
	read    *budget // memory of pieces

	waiters waiterPool
	running sync.WaitGroup // calls in the background
	bytes   [3]atomic.Int64
	counters

	mu     sync.Mutex // guards all that follows, and File.refs
	files  map[nfs3.FH]*File
	closed bool
	ticker *time.Timer // nil until it is first needed

	ticking atomic.Bool // the ticker is set; changed under mu
}

// setDefault gives v a value where it has none, and at least the least.
func setDefault[T int | int64 | time.Duration](v *T, value, least T) {
	if *v == 0 {
		*v = value
	}
	*v = max(*v, least)
}

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

// File returns the state of a file, which lives until each File call was met by
// a Release, all its Handles are closed, and its data has been written.
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

// each calls do for every File of this moment, with no lock held.
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

// Sync makes all that was written to any file before it stable. Its error is the context's, or that
// of a WRITE or COMMIT that failed meanwhile; each Handle is told of its own as well.
func (e *Engine) Sync(ctx context.Context) error {
	e.each(func(f *File) { // all at once
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

// Close is Sync, and ends the Engine: when ctx ends first, what was not written is
// lost, and Config.Lost is told. Calls of the Engine fail from then on.
func (e *Engine) Close(ctx context.Context) error {
	err := e.Sync(ctx)
	e.mu.Lock()
	e.closed = true
	if e.ticker != nil {
		e.ticker.Stop()
	}
	e.mu.Unlock()
	e.each((*File).abandon) // first, so that what is told is that, and not how its calls ended
	e.cancel()
	e.running.Wait()
	return err
}
