// Closing files whose data nobody has synced, without losing what the disk says of it.

package osfs

import (
	"math"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// The kernel tells of a failed write-back to descriptors that were open when it
// failed, and to the next one opened only as long as it still has the inode in
// memory. So a file with data that no Sync has covered is synced before its last
// descriptor is closed, and an error is kept for the next Sync of that file.
type flusher struct {
	mu      sync.Mutex // guards all below
	queue   []*node
	running bool
	done    sync.WaitGroup
	pending map[nfsserver.Ref]int   // nodes in queue, or being synced
	ended   sync.Cond               // one of pending
	lost    map[nfsserver.Ref]error // told to nobody yet
	lostAny error                   // of a file that did not fit in lost
}

func (q *flusher) init() {
	q.pending, q.lost = make(map[nfsserver.Ref]int), make(map[nfsserver.Ref]error)
	q.ended.L = &q.mu
}

// end waits for the goroutine. No other one is begun: the FS is closed, and who has not seen that
// yet has begun his by the time that mu is had.
func (q *flusher) end() {
	q.mu.Lock()
	running := q.running
	q.mu.Unlock()
	if running {
		q.done.Wait()
	}
}

// room is how many more files can be queued.
func (q *flusher) room() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maxFlushes - len(q.queue)
}

// hasRoom reports whether n may be closed now: it need not be synced, or room,
// which is then lowered, has not run out.
func (n *node) hasRoom(room *int) bool {
	if room == nil || !n.dirty.Load() {
		return true
	}
	*room--
	return *room >= 0
}

// flushData is how the kernel is asked for the data of a file; a test fails it.
var flushData = unix.Fdatasync

// retire closes a node that nobody has a reference to.
func (f *FS) retire(n *node) {
	if n.shifts {
		f.seeBirth(n)
	}
	if n.pinned.Load() {
		f.unpin(n)
	}
	if !n.unsynced() {
		n.close()
		return
	}
	// On the goroutine of whoever has let go of the file: who writes faster than the disk takes it
	// waits for the disk.
	if !f.enqueue(n, maxFlushes) {
		f.flushNode(n)
	}
}

// retireAside is retire for who MUST NOT wait, for a connection waits for him: to close a large
// file that has been removed takes as long as to free all of its pages.
func (f *FS) retireAside(n *node) {
	if n.shifts {
		f.seeBirth(n)
	}
	if n.pinned.Load() {
		f.unpin(n)
	}
	if !f.enqueue(n, math.MaxInt) {
		f.flushNode(n)
	}
}

// unsynced reports whether n has been written to and not synced since.
func (n *node) unsynced() bool { return n.dirty.Load() && n.write.Load() >= 0 }

// enqueue has a goroutine close n, and reports whether it does; else, with most or more in the
// queue or after Close, flushNode is for the caller to call.
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

// flushLoop syncs and closes what is queued, and ends.
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

// flushNode syncs the data of n and closes it.
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
	case len(q.lost) >= maxLost:
		q.lostAny = err
	default:
		q.lost[n.ref] = err
	}
	q.ended.Broadcast()
}

// takeLost returns, once, the error that r had when it was closed. Whoever
// asks has just synced r himself: an error that his own descriptor was opened too
// late to see was found by a flush that is pending or has ended.
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
