// The open trees of an export with Trees: opened when needed, and closed when others need the room.

package nfsserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/transport"
)

// defaultTrees is Export.MaxTrees's default.
const defaultTrees = 256

// errRefSize: a tree's Refs do not fit its handles.
var errRefSize = fmt.Errorf("a Ref of the tree has more than %d bytes", MaxTreeRef)

// A treeTable holds an export's open trees, and those being opened or closed: at most most trees,
// each once. Each tree is an export of its own, with its own locks, verifier and syncs. So a tree
// closed and opened again has another verifier, and clients resend their uncommitted data.
type treeTable struct {
	// Set once.
	of     *export
	chosen Trees
	most   int
	log    *transport.RateLog

	clock atomic.Uint64 // counts uses

	mu      sync.RWMutex // guards all below
	trees   map[uint64]*tree
	ended   bool        // the export is closed: no tree may be opened
	decided tally.Table // decisions by the FSs of closed trees
}

// A tree is in the table from the start of Open to the end of Close.
type tree struct {
	// Set once.
	x      *export       // x.ready is set once the tree is open
	opened chan struct{} // closed when Open has ended
	closed chan struct{} // closed when the tree has left the table

	err      error // Open's, set before opened is closed
	closeErr error // Close's, set before closed is closed

	// Guarded by treeTable.mu.
	closing bool   // no call may begin to use the tree
	room    uint64 // number of the tree to open instead, if cedes
	cedes   bool   // closed for another tree
}

// newTreeTable makes the table for export x with e.Trees.
func newTreeTable(x *export, e *Export, log *transport.RateLog) *treeTable {
	return &treeTable{of: x, chosen: e.Trees, most: cmp.Or(max(e.MaxTrees, 0), defaultTrees), log: log, trees: map[uint64]*tree{}, decided: tally.Table{}}
}

// enter returns an open tree in use until leave; nil: the tree is not open. The caller uses the
// export.
func (t *treeTable) enter(number uint64) *export {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.entered(t.trees[number])
}

// entered is enter for an element of the table, or nil; mu is held.
func (t *treeTable) entered(n *tree) *export {
	if n == nil || n.closing || !n.x.ready.Load() {
		return nil
	}
	t.of.calls.Add(1) // the caller's own use of the export keeps the export from being retired
	n.x.calls.Add(1)
	n.x.used.Store(t.clock.Add(1))
	return n.x
}

// root returns an open tree's root.
func (t *treeTable) root(number uint64) (root Ref, open bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if n := t.trees[number]; n != nil && n.x.ready.Load() {
		return n.x.root, true
	}
	return Ref{}, false
}

// begin returns the tree, in use until leave. If the tree must be opened first, or one must be
// closed, begin starts that, unless it already runs. It then returns the tree concerned, n, and the
// channel that is closed afterwards, n.opened or n.closed: the caller waits, and tries again.
func (t *treeTable) begin(by Caller, number uint64) (x *export, n *tree, over chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = t.trees[number]
	if x = t.entered(n); x != nil {
		return x, nil, nil, nil
	}
	switch {
	case n != nil && n.closing:
		return nil, n, n.closed, nil
	case n != nil:
		return nil, n, n.opened, nil
	case t.ended:
		return nil, nil, nil, ErrStale
	case len(t.trees) < t.most:
		x = &export{id: t.of.id, name: t.of.name, lane: t.of.lane, of: t.of, number: number}
		n = &tree{x: x, opened: make(chan struct{}), closed: make(chan struct{})}
		t.trees[number] = n
		go t.opens(n, by)
		return nil, n, n.opened, nil
	}
	if n = t.cede(number); n == nil {
		return nil, nil, nil, ErrBusy
	}
	return nil, n, n.closed, nil
}

// cede returns a tree being closed to make room for tree number; nil: all trees are in use. All
// calls that wait for the same tree share one, or a burst would close a tree for each. mu is held.
func (t *treeTable) cede(number uint64) *tree {
	for _, n := range t.trees {
		if n.cedes && n.room == number {
			return n
		}
	}
	n := t.unused()
	if n != nil {
		n.room, n.cedes = number, true
		t.startClosing(n)
	}
	return n
}

// unused returns the open tree that neither calls nor locks use, for the longest time; nil: none.
// mu is held, so no call begins to use the tree.
func (t *treeTable) unused() (oldest *tree) {
	for _, n := range t.trees {
		if n.closing || !n.x.ready.Load() || n.x.calls.Load() > 0 || n.x.held.Load() > 0 {
			continue
		}
		if oldest == nil || n.x.used.Load() < oldest.x.used.Load() {
			oldest = n
		}
	}
	return oldest
}

// openFS opens a tree's FS. A panic in Open is an error of this tree alone, as in a procedure.
func (t *treeTable) openFS(by Caller, number uint64) (fs FS, err error) {
	defer func() {
		if p := recover(); p != nil {
			fs, err = nil, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	fs, err = t.chosen.Open(by, number)
	if err == nil {
		if root := fs.Root(); root.Len() > MaxTreeRef {
			fs.Close()
			err = errRefSize
		}
	}
	return fs, err
}

// opens opens a tree. After a failure, or at the end of the export, the tree leaves the table.
func (t *treeTable) opens(n *tree, by Caller) {
	fs, err := t.openFS(by, n.x.number)
	if err != nil && !isGone(err) {
		t.log.Warn("a tree cannot be opened", "export", t.of.name, "tree", n.x.number, "error", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n.err = err
	if err != nil {
		delete(t.trees, n.x.number)
		close(n.closed)
	} else {
		n.x.written.renew()
		n.x.served(fs)
		if n.closing || t.ended {
			t.startClosing(n)
		}
	}
	close(n.opened)
}

// startClosing closes an open tree after its last call; mu is held.
func (t *treeTable) startClosing(n *tree) {
	n.closing = true
	go t.closes(n)
}

// closes closes a tree that no call may begin to use.
func (t *treeTable) closes(n *tree) {
	for n.x.calls.Load() > 0 {
		time.Sleep(retirePoll)
	}
	n.closeErr = n.x.fs.Close()
	if n.closeErr != nil {
		t.log.Warn("closing a tree", "export", t.of.name, "tree", n.x.number, "error", n.closeErr)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decided.AddAll(n.x.mechanisms())
	delete(t.trees, n.x.number)
	close(n.closed)
}

// close begins to close a tree, after its opening if need be; mu is held.
func (t *treeTable) close(n *tree) {
	if !n.closing && n.x.ready.Load() {
		t.startClosing(n)
	}
	n.closing = true
}

// end closes all trees, and opens no more.
func (t *treeTable) end() error {
	t.mu.Lock()
	t.ended = true
	var all []*tree
	for _, n := range t.trees {
		t.close(n)
		all = append(all, n)
	}
	t.mu.Unlock()
	var errs []error
	for _, n := range all {
		<-n.closed
		errs = append(errs, n.closeErr)
	}
	return errors.Join(errs...)
}

// each calls do for the open trees. do does not block.
func (t *treeTable) each(do func(*export)) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, n := range t.trees {
		if n.x.ready.Load() && !n.closing {
			do(n.x)
		}
	}
}

// mechanisms returns the decisions by all trees' FSs, including closed ones.
func (t *treeTable) mechanisms() tally.Table {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := tally.Table{}
	all.AddAll(t.decided)
	for _, n := range t.trees {
		all.AddAll(n.x.mechanisms())
	}
	return all
}

// CloseTree closes the FS that an export's Trees opened for a number, once its last call has ended.
// It returns after the close, or when ctx ends. Later calls ask May, and open the tree again if May
// allows.
// Export.Name names the export; a tree that is not open is no error.
func (s *Server) CloseTree(ctx context.Context, export string, number uint64) error {
	for _, e := range s.table.Load().entries {
		if e.x.name != export || e.x.trees == nil {
			continue
		}
		t := e.x.trees
		t.mu.Lock()
		n := t.trees[number]
		if n != nil {
			t.close(n)
		}
		t.mu.Unlock()
		if n == nil {
			return nil
		}
		select {
		case <-n.closed:
			return n.closeErr
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("no export %s with Trees", export)
}

// locker returns the FS's Locker. A tree's Locker keeps the tree open while locks are open.
func (x *export) locker() Locker {
	if x.of == nil || x.opt.locks == nil {
		return x.opt.locks
	}
	return treeLocker{x.opt.locks, x}
}

// treeLocker is a tree's Locker.
type treeLocker struct {
	Locker
	x *export
}

func (k treeLocker) OpenLocks(r Ref) (FileLocks, error) {
	k.x.held.Add(1)
	l, err := k.Locker.OpenLocks(r)
	if err != nil {
		k.x.held.Add(-1)
		return nil, err
	}
	if local, ok := l.(LocalLocks); ok {
		return heldLocal{local, k.x}, nil
	}
	return heldLocks{l, k.x}, nil
}

// heldLocks are open locks that count in their tree.
type heldLocks struct {
	FileLocks
	x *export
}

func (h heldLocks) Close() error {
	defer h.x.held.Add(-1)
	return h.FileLocks.Close()
}

// heldLocal are heldLocks on a file of this machine.
type heldLocal struct {
	LocalLocks
	x *export
}

func (h heldLocal) Close() error {
	defer h.x.held.Add(-1)
	return h.LocalLocks.Close()
}
