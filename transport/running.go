// Calls that MUST NOT run beside a copy of themselves, while they wait or run.

package transport

import "sync"

const (
	// runningSummed is how many leading bytes of the arguments the checksum covers: of a WRITE
	// the handle, the offset and the length, and not the data. Two calls that are alike in
	// these, in XID, client and user run at the same time and over the same bytes, so that one
	// of them may stand for both even if their data differ.
	runningSummed  = 128
	runningBuckets = 256 // a power of two: more than calls that run at most times, and few cache lines
)

// runningCalls is a hash table of entries that are linked by next and are part of their
// calls. It has a lock for each bucket, no memory of its own and no list by age, since WRITEs
// are many and small.
type runningCalls struct {
	buckets [runningBuckets]struct {
		mu   sync.Mutex
		head *drcEntry
	}
}

// bucket is the index of the bucket of a key.
func (k *drcKey) bucket() uint64 {
	return (k.sum ^ uint64(k.xid)*0x9e3779b97f4a7c15) % runningBuckets
}

// admit enters c, with the key and origin of its running entry, or makes it wait for the call that
// it repeats.
func (r *runningCalls) admit(c *Call) admission {
	own := &c.running
	b := &r.buckets[own.key.bucket()]
	b.mu.Lock()
	defer b.mu.Unlock()
	for e := b.head; e != nil; e = e.next {
		if e.key.sum != own.key.sum || e.key != own.key {
			continue
		}
		if repeats, _ := e.from.repeatedBy(own.from); repeats {
			return admission{dropped: e.wait(c, own.from)}
		}
		c.Distinct = true
	}
	if c.Distinct && own.from.clientLeft() {
		return admission{dropped: c}
	}
	own.passing = true
	own.next, b.head = b.head, own
	c.dup = own
	return admission{runs: true}
}

// remove takes e out: no more duplicates wait for it. It returns the waiting one, if any.
func (r *runningCalls) remove(e *drcEntry) (w *Call) {
	b := &r.buckets[e.key.bucket()]
	b.mu.Lock()
	defer b.mu.Unlock()
	r.unlink(e)
	w, e.waiter = e.waiter, nil
	return w
}

// unlink takes e out of its bucket. The caller holds the bucket's lock.
func (r *runningCalls) unlink(e *drcEntry) {
	at := &r.buckets[e.key.bucket()].head
	for *at != e {
		at = &(*at).next
	}
	*at, e.next = e.next, nil
}

// abandon takes e out. The waiting duplicate, if any, takes its
// place with an entry of its own, and is returned.
func (r *runningCalls) abandon(e *drcEntry) *Call {
	b := &r.buckets[e.key.bucket()]
	b.mu.Lock()
	defer b.mu.Unlock()
	r.unlink(e)
	w := e.waiter
	if e.waiter = nil; w == nil {
		return nil
	}
	own := &w.running // its key and origin are those of e
	own.passing = true
	own.next, b.head = b.head, own
	w.dup = own
	return w
}
