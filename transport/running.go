// Calls that MUST NOT run beside a copy of themselves, while they wait or run.

package transport

import "sync"

const (
	// runningSummed is how many leading bytes of the arguments the checksum covers: of a WRITE
	// the handle, the offset and the length, and not the data. Two calls that are alike in
	// these, in XID, client and user run at the same time and over the same bytes, so that one
	// of them may stand for both even if their data differ.
	runningSummed  = 128
	runningBuckets = 1024 // a power of two: about as many as calls that run
)

// runningCalls is a hash table of entries that are linked by next. It has a lock for each
// bucket, no memory of its own and no list by age, since WRITEs are many and small.
type runningCalls struct {
	buckets [runningBuckets]struct {
		mu   sync.Mutex
		head *drcEntry
	}
}

// passingEntries are used again: a WRITE allocates nothing.
var passingEntries = sync.Pool{New: func() any { return new(drcEntry) }}

func (e *drcEntry) recycle() {
	*e = drcEntry{}
	passingEntries.Put(e)
}

// bucket is the index of the bucket of a key.
func (k *drcKey) bucket() uint64 {
	return (k.sum ^ uint64(k.xid)*0x9e3779b97f4a7c15) % runningBuckets
}

// admit reports whether c is to be run; if not it waits for its original.
func (r *runningCalls) admit(c *Call, key drcKey) bool {
	fresh := passingEntries.Get().(*drcEntry)
	fresh.key, fresh.passing = key, true
	b := &r.buckets[key.bucket()]
	b.mu.Lock()
	for e := b.head; e != nil; e = e.next {
		if e.key != key {
			continue
		}
		left := e.wait(c)
		b.mu.Unlock()
		fresh.recycle()
		if left != nil {
			left.via.drop(left)
		}
		return false
	}
	fresh.next, b.head = b.head, fresh
	b.mu.Unlock()
	c.dup = fresh
	return true
}

// remove takes e out: no more duplicates wait for it.
func (r *runningCalls) remove(e *drcEntry) {
	b := &r.buckets[e.key.bucket()]
	b.mu.Lock()
	r.unlink(e)
	b.mu.Unlock()
}

// unlink takes e out of its bucket. The caller holds the bucket's lock.
func (r *runningCalls) unlink(e *drcEntry) {
	at := &r.buckets[e.key.bucket()].head
	for *at != e {
		at = &(*at).next
	}
	*at, e.next = e.next, nil
}

// abandon gives e to the duplicate that has waited longest and returns that, or takes e out.
func (r *runningCalls) abandon(e *drcEntry) *Call {
	b := &r.buckets[e.key.bucket()]
	b.mu.Lock()
	defer b.mu.Unlock()
	w := e.heir()
	if w == nil {
		r.unlink(e)
	}
	return w
}
