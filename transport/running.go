// Calls that MUST NOT run beside their own copy, while they wait or run.

package transport

import "sync"

// runningCalls is a hash table with entries that are part of their calls, linked by next. Since
// WRITEs are frequent and small, the table has a lock for each bucket, allocates no entries, and
// has no list by age.
type runningCalls struct {
	buckets [runningBuckets]struct {
		mu   sync.Mutex
		head *drcEntry
	}
}

// bucket returns a key's bucket index.
func (k *drcKey) bucket() uint64 {
	return (k.sum ^ uint64(k.xid)*0x9e3779b97f4a7c15) % runningBuckets
}

// admit enters c, with its running entry's key and origin, or makes it wait for the call that it
// repeats.
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

// remove removes e: no more duplicates wait for it. remove returns the waiting duplicate, if any.
func (r *runningCalls) remove(e *drcEntry) (w *Call) {
	b := &r.buckets[e.key.bucket()]
	b.mu.Lock()
	defer b.mu.Unlock()
	r.unlink(e)
	w, e.waiter = e.waiter, nil
	return w
}

// unlink removes e from its bucket. The caller holds the bucket's lock.
func (r *runningCalls) unlink(e *drcEntry) {
	at := &r.buckets[e.key.bucket()].head
	for *at != e {
		at = &(*at).next
	}
	*at, e.next = e.next, nil
}

// abandon removes e. A waiting duplicate takes its place with its own entry, and is returned.
func (r *runningCalls) abandon(e *drcEntry) *Call {
	b := &r.buckets[e.key.bucket()]
	b.mu.Lock()
	defer b.mu.Unlock()
	r.unlink(e)
	w := e.waiter
	if e.waiter = nil; w == nil {
		return nil
	}
	own := &w.running // the key and origin equal e's
	own.passing = true
	own.next, b.head = b.head, own
	w.dup = own
	return w
}
