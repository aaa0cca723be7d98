// Opens that the kernel repeats: it walks the path once more if the file is gone (ESTALE), and not
// a third time.
//
// The file that the second walk finds counts as open until its open comes, and a removal in between
// hides it. Only the thread identifies the second walk. A thread with another number for us, or
// none, as in another PID namespace, can take the place of one. Then an open may fail with ESTALE
// without need.

package fusefs

import (
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

const (
	reopenFor  = time.Second // for which a walk or an open that is made again is awaited
	maxReopens = 1024        // threads
)

// reopens has the threads that will repeat an open, and the files that are kept for them.
type reopens struct {
	// set once
	fs     *fileSystem
	gaveUp chan struct{} // closed when the server is given up at the end of the mount

	mu      sync.Mutex // guards all below
	walking map[fuse.Caller]time.Time
	kept    map[fuse.Caller]*keptFile
	wg      sync.WaitGroup // calls that remove what was kept
}

// A keptFile has one open counted until end.
type keptFile struct {
	n     *node
	who   *caller
	timer *time.Timer
}

// expect records that the thread will walk the path of an open again.
func (q *reopens) expect(from *fuse.Caller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.walking == nil || len(q.walking) >= maxReopens {
		q.walking = make(map[fuse.Caller]time.Time)
	}
	q.walking[*from] = time.Now()
}

// expects reports whether the thread does that.
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

// lookupReopen is answerLookup for a repeated walk. A file that it finds is kept.
func (r *request) lookupReopen(dir *node, name string, from *fuse.Caller, out *fuse.EntryOut) fuse.Status {
	f := r.fs
	for try := 1; ; try++ {
		st := r.answerLookup(dir, name, out)
		if st != fuse.OK || out.NodeId == 0 {
			return st
		}
		n := f.table.get(out.NodeId)
		if attr, _ := n.snapshot(); attr.Type != nfs3.TypeReg || try == lookupTries {
			return st
		}
		if f.table.open(n) == nil {
			if !n.gone.Load() {
				f.reopens.keep(from, &keptFile{n: n, who: r.who})
				return st
			}
			f.closed(r, n, r.who)
		}
		f.table.forget(n.id, 1) // it was removed meanwhile
	}
}

// keep counts the file as open until the thread has opened it, or for reopenFor.
func (q *reopens) keep(from *fuse.Caller, k *keptFile) {
	at := *from
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end(at, q.kept[at])
	if q.kept == nil {
		q.kept = make(map[fuse.Caller]*keptFile)
	}
	q.kept[at] = k
	k.timer = time.AfterFunc(reopenFor, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.end(at, k)
	})
}

// came records an open of the thread, which is counted now or has failed.
func (q *reopens) came(from *fuse.Caller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.walking, *from)
	q.end(*from, q.kept[*from])
}

// end takes the open of k back, once, and does nothing if k is nil. It does not wait for the server
// to remove a file. The caller holds mu.
func (q *reopens) end(at fuse.Caller, k *keptFile) {
	if k == nil || q.kept[at] != k {
		return
	}
	delete(q.kept, at)
	k.timer.Stop()
	if hidden, ok := q.fs.table.close(k.n); ok {
		r := &request{fs: q.fs, who: k.who, done: q.gaveUp}
		q.wg.Go(func() { r.removeHidden(k.n, hidden) })
	}
}

// stop releases all files. It waits for the server for lastCalls at most.
func (q *reopens) stop() {
	q.mu.Lock()
	for at, k := range q.kept {
		q.end(at, k)
	}
	q.mu.Unlock()
	giveUp := time.AfterFunc(lastCalls, func() { close(q.gaveUp) })
	q.wg.Wait()
	giveUp.Stop()
}
