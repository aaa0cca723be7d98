// Repeated opens: after ESTALE the kernel walks the path a second time, but not a third time.
//
// The file found by the second walk counts as open until its open arrives, so a removal in between
// only hides the file. Only the thread number identifies the second walk. Threads in another PID
// namespace may have no number here, or share one. Then an open may fail needlessly with ESTALE.

package fusefs

import (
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Bounds of repeated opens.
const (
	reopenFor  = time.Second // how long to wait for a repeated walk or open
	maxReopens = 1024        // threads
)

// reopens has the threads about to repeat an open, and the files kept open for them.
type reopens struct {
	// set once
	fs     *fileSystem
	gaveUp chan struct{} // closed when the end of the mount stops waiting for the server

	mu      sync.Mutex // guards all below
	walking map[fuse.Caller]time.Time
	files   map[fuse.Caller]*reopenFile
	wg      sync.WaitGroup // removals of kept files
}

// A reopenFile has one open counted until end.
type reopenFile struct {
	n     *node
	who   *caller
	timer *time.Timer
}

// expect records a thread before its second walk for an open.
func (q *reopens) expect(from *fuse.Caller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.walking == nil || len(q.walking) >= maxReopens {
		q.walking = make(map[fuse.Caller]time.Time)
	}
	q.walking[*from] = time.Now()
}

// expects reports whether the thread is walking a path again.
func (q *reopens) expects(from *fuse.Caller) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at, ok := q.walking[*from]
	if ok && time.Since(at) >= reopenFor {
		delete(q.walking, *from)
		return false
	}
	return ok
}

// lookupReopen is lookupEntry for a repeated walk. It keeps a found file open.
func (r *request) lookupReopen(dir *node, name string, from *fuse.Caller, out *fuse.EntryOut) fuse.Status {
	f := r.fs
	for try := 1; ; try++ {
		st := r.lookupEntry(dir, name, out)
		if st != fuse.OK || out.NodeId == 0 {
			return st
		}
		n := f.table.get(out.NodeId)
		if attr, _ := n.snapshot(); attr.Type != nfs3.TypeReg || try == lookupTries {
			return st
		}
		if f.table.open(n) == nil {
			if !n.gone.Load() {
				f.reopens.keep(from, &reopenFile{n: n, who: r.who})
				return st
			}
			f.closed(r, n, r.who)
		}
		f.table.forget(n.id, 1) // the file was removed meanwhile
	}
}

// keep counts the file as open until the thread has opened it, at most for reopenFor.
func (q *reopens) keep(from *fuse.Caller, k *reopenFile) {
	at := *from
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end(at, q.files[at])
	if q.files == nil {
		q.files = make(map[fuse.Caller]*reopenFile)
	}
	q.files[at] = k
	k.timer = time.AfterFunc(reopenFor, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.end(at, k)
	})
}

// openArrived ends the thread's wait for an open: that open is now counted or has failed.
func (q *reopens) openArrived(from *fuse.Caller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.walking, *from)
	q.end(*from, q.files[*from])
}

// end takes back k's open, once; k may be nil. The removal of a hidden file runs in the background.
// The caller holds q.mu.
func (q *reopens) end(at fuse.Caller, k *reopenFile) {
	if k == nil || q.files[at] != k {
		return
	}
	delete(q.files, at)
	k.timer.Stop()
	if hidden, ok := q.fs.table.close(k.n); ok {
		r := &request{fs: q.fs, who: k.who, done: q.gaveUp}
		q.wg.Go(func() { r.removeHidden(k.n, hidden) })
	}
}

// stop releases all files. It waits at most lastCalls for the server.
func (q *reopens) stop() {
	q.mu.Lock()
	for at, k := range q.files {
		q.end(at, k)
	}
	q.mu.Unlock()
	giveUp := time.AfterFunc(lastCalls, func() { close(q.gaveUp) })
	q.wg.Wait()
	giveUp.Stop()
}
