// Closes unsynced files without losing their write-back errors.

package osfs

import (
	"math"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// The kernel reports a failed write-back to descriptors open at the failure. It reports the failure
// to the next descriptor only while the inode stays in memory. So a file with data not covered by a
// Sync is synced before its last descriptor is closed. An error is kept for the file's next Sync.
type flusher struct {
	mu      sync.Mutex // guards all below
	queue   []*node
	running bool
	done    sync.WaitGroup
	pending map[nfsserver.Ref]int   // nodes in queue or being synced
	ended   sync.Cond               // signals a pending node's completed sync
	lost    map[nfsserver.Ref]error // write-back errors not yet reported by Sync
	lostAny error                   // the error of a file beyond maxLostErrors
}

func (q *flusher) init() {
	q.pending, q.lost = make(map[nfsserver.Ref]int), make(map[nfsserver.Ref]error)
	q.ended.L = &q.mu
}

// end waits for flushLoop's goroutine. No other goroutine starts: the FS is closed. A call that did
// not see the close has started its goroutine before end locks mu.
func (q *flusher) end() {
	q.mu.Lock()
	running := q.running
	q.mu.Unlock()
	if running {
		q.done.Wait()
	}
}

// room returns how many files can still be queued.
func (q *flusher) room() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maxQueuedFlushes - len(q.queue)
}

// hasRoom reports whether n may be closed now: n needs no sync, or room is left for one. In the
// latter case hasRoom lowers room.
func (n *node) hasRoom(room *int) bool {
	if room == nil || !n.dirty.Load() {
		return true
	}
	*room--
	return *room >= 0
}

// flushData syncs a file's data; tests replace it to make the sync fail.
var flushData = unix.Fdatasync

// retire closes a node without references.
func (f *FS) retire(n *node) {
	if n.unstableBtime {
		f.seeBirth(n)
	}
	if n.pinned.Load() {
		f.unpin(n)
	}
	if !n.unsynced() {
		n.close()
		return
	}
	// If the queue is full, sync on the caller's goroutine: a client that writes faster than the
	// disk then waits for the disk.
	if !f.enqueue(n, maxQueuedFlushes) {
		f.flushNode(n)
	}
}

// retireAsync is retire for a caller that MUST NOT wait, because a connection waits for that
// caller. Even to close a large removed file takes as long as the kernel needs to free its pages.
func (f *FS) retireAsync(n *node) {
	if n.unstableBtime {
		f.seeBirth(n)
	}
	if n.pinned.Load() {
		f.unpin(n)
	}
	if !f.enqueue(n, math.MaxInt) {
		f.flushNode(n)
	}
}

// unsynced reports whether n has writes after its last Sync began.
func (n *node) unsynced() bool { return n.dirty.Load() && n.write.Load() >= 0 }

// enqueue queues n, which a goroutine then syncs and closes, and returns true. With most or more
// nodes in the queue, or after Close, it returns false, and the caller MUST call flushNode.
func (f *FS) enqueue(n *node, most int) bool {
	q := &f.flush
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending[n.ref]++
	if len(q.queue) >= most || f.closed.Load() {
		return false
	}
	q.queue = append(q.queue, n)
	if !q.running {
		q.running = true
		q.done.Go(f.flushLoop)
	}
	return true
}

// flushLoop syncs and closes the queued nodes, and returns when the queue is empty.
func (f *FS) flushLoop() {
	q := &f.flush
	for {
		q.mu.Lock()
		if len(q.queue) == 0 {
			q.queue, q.running = nil, false
			q.mu.Unlock()
			return
		}
		n := q.queue[0]
		q.queue = q.queue[1:]
		q.mu.Unlock()
		f.flushNode(n)
	}
}

// flushNode syncs n's data and closes it.
func (f *FS) flushNode(n *node) {
	var err error
	if n.unsynced() && !f.closed.Load() {
		err = eintr.Retry(func() error { return flushData(int(n.write.Load())) })
	}
	n.close()
	q := &f.flush
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending[n.ref]--; q.pending[n.ref] == 0 {
		delete(q.pending, n.ref)
	}
	switch {
	case err == nil:
	case len(q.lost) >= maxLostErrors:
		q.lostAny = err
	default:
		q.lost[n.ref] = err
	}
	q.ended.Broadcast()
}

// takeLost returns and clears the kept error of the file r, which the caller has just synced. If
// the caller's descriptor was opened too late to see an error, a flush has seen it. takeLost waits
// for a pending flush.
func (f *FS) takeLost(r *nfsserver.Ref) error {
	q := &f.flush
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.pending[*r] > 0 {
		q.ended.Wait()
	}
	if err := q.lostAny; err != nil {
		q.lostAny = nil
		return err
	}
	err := q.lost[*r]
	delete(q.lost, *r)
	return err
}
