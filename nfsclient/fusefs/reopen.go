// Opens that the kernel makes again: it walks the path once more where the file is gone (ESTALE), and not a third time.
//
// So the file that the second walk finds is kept as if it were open until the open of it comes: a removal in between
// hides it. Which walk is the second one only its thread shows. A thread that has another number for us, or none, as
// in another PID namespace, can take the place of one; then an open may fail with ESTALE that need not.

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

// reopens is the threads of which an open is expected again, and the files that are kept for them.
type reopens struct {
	fs *fileSystem // set once

	mu      sync.Mutex // guards all below
	walking map[fuse.Caller]time.Time
	kept    map[fuse.Caller]*keptFile
}

// A keptFile has one open counted until end.
type keptFile struct {
	n     *node
	who   *caller
	timer *time.Timer
}

// expect notes that the thread walks the path of an open again.
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

// lookupReopen is answerLookup for a walk that is made again. A file that it finds is kept.
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

// keep has the file be open until the thread has opened it, or a while.
func (q *reopens) keep(from *fuse.Caller, k *keptFile) {
	q.release(from)
	at := *from
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.kept == nil {
		q.kept = make(map[fuse.Caller]*keptFile)
	}
	q.kept[at] = k
	k.timer = time.AfterFunc(reopenFor, func() { q.end(at, k) })
}

// came notes an open of the thread, which is counted now or has failed.
func (q *reopens) came(from *fuse.Caller) {
	q.mu.Lock()
	delete(q.walking, *from)
	q.mu.Unlock()
	q.release(from)
}

// release ends the keeping for a thread.
func (q *reopens) release(from *fuse.Caller) {
	q.mu.Lock()
	k := q.kept[*from]
	q.mu.Unlock()
	if k != nil {
		q.end(*from, k)
	}
}

// end counts the open of k out, once.
func (q *reopens) end(at fuse.Caller, k *keptFile) {
	q.mu.Lock()
	ended := q.kept[at] != k
	if !ended {
		delete(q.kept, at)
		k.timer.Stop()
	}
	q.mu.Unlock()
	if !ended {
		q.fs.closed(&request{fs: q.fs, who: k.who, done: make(chan struct{})}, k.n, k.who)
	}
}

// stop ends the keeping of all.
func (q *reopens) stop() {
	q.mu.Lock()
	var all []fuse.Caller
	for at := range q.kept {
		all = append(all, at)
	}
	q.mu.Unlock()
	for i := range all {
		q.release(&all[i])
	}
}
