// The duplicate request cache: a call that is not idempotent is done once, over whichever
// connection it comes again, and none that must not overlap runs beside a copy of itself.

package transport

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// Bounds of the cache.
const (
	drcEntries  = 16384
	drcOctets   = 16 << 20
	drcReplyMax = 2048 // replies above are not kept: calls that are not idempotent have small ones
	drcAge      = 2 * time.Minute
	drcSummed   = 1024 // leading octets of the arguments that the checksum covers
	drcWaiters  = 4    // duplicates that may wait for one running call
)

// A drcKey tells calls apart. The client is known by its address without the
// port, since a client that reconnects may come from another one, and by the user that
// calls: others on its machine MUST NOT get replies of calls that they could not make.
// The checksum guards against XIDs that a client uses again for another call.
type drcKey struct {
	addr                  netip.Addr
	owner                 Owner
	flavor, uid, gid      uint32
	xid, prog, vers, proc uint32
	length                int
	sum                   uint64
}

// A drcEntry is a call that runs (done is false) or its reply.
type drcEntry struct {
	key        drcKey
	passing    bool // goes when the call ends: only what runs is looked for
	done       bool
	reply      []byte
	at         time.Time
	waiters    *Call // duplicates to answer with the original
	waiting    int
	prev, next *drcEntry // in the list by age
}

// passingEntries are used again, since WRITEs are many and allocate nothing.
var passingEntries = sync.Pool{New: func() any { return new(drcEntry) }}

type drc struct {
	seed maphash.Seed

	mu      sync.Mutex
	entries map[drcKey]*drcEntry
	oldest  drcEntry // ring: oldest.next is the oldest done entry
	octets  int
	done    int
}

func newDRC() *drc {
	d := &drc{seed: maphash.MakeSeed(), entries: map[drcKey]*drcEntry{}}
	d.oldest.prev, d.oldest.next = &d.oldest, &d.oldest
	return d
}

// admit tells whether c is to be run. Where it is a duplicate it is answered
// now, or with its original when that ends.
func (d *drc) admit(c *Call, client netip.Addr) bool {
	h := &c.header
	key := drcKey{addr: client, owner: c.Owner, flavor: c.Cred.Flavor, uid: c.Cred.UID, gid: c.Cred.GID,
		xid: h.XID, prog: h.Prog, vers: h.Vers, proc: h.Proc}
	if !client.IsValid() {
		return true // clients without an address cannot be told apart
	}
	unread := c.args // a copy: what it reads, args still has
	rest := unread.Rest()
	key.length = len(rest)
	key.sum = maphash.Bytes(d.seed, rest[:min(len(rest), drcSummed)])

	d.mu.Lock()
	d.expire(time.Now())
	e := d.entries[key]
	switch {
	case e == nil:
		c.dup = newEntry(key, c.proc.Idempotent)
		d.entries[key] = c.dup
		d.mu.Unlock()
		return true
	case e.done:
		c.res.Truncate(0)
		c.res.Raw(e.reply)
		d.mu.Unlock()
		c.via.reply(c)
	case e.waiting < drcWaiters:
		c.onLoop = false
		c.next, e.waiters = e.waiters, c
		e.waiting++
		d.mu.Unlock()
	default:
		d.mu.Unlock()
		c.via.drop(c)
	}
	return false
}

func newEntry(key drcKey, passing bool) *drcEntry {
	if !passing {
		return &drcEntry{key: key}
	}
	e := passingEntries.Get().(*drcEntry)
	*e = drcEntry{key: key, passing: true}
	return e
}

// finish keeps the reply of c, if there is one to keep, and answers the duplicates.
func (d *drc) finish(c *Call, success bool) {
	e := c.dup
	c.dup = nil
	usable := success && len(c.res.Items()) == 0 && c.res.Len() <= drcReplyMax
	keep := usable && !e.passing
	d.mu.Lock()
	waiters := e.waiters
	e.waiters = nil
	if keep {
		e.done, e.at = true, time.Now()
		e.reply = append([]byte(nil), c.res.Bytes()...)
		d.push(e)
	} else {
		delete(d.entries, e.key)
	}
	d.mu.Unlock()
	for w := waiters; w != nil; {
		next := w.next
		w.next = nil
		if usable {
			w.res.Truncate(0)
			w.res.Raw(c.res.Bytes())
			w.via.reply(w)
		} else {
			w.via.drop(w)
		}
		w = next
	}
	if e.passing {
		passingEntries.Put(e)
	}
}

// abandon is for c that is not going to run. The duplicate that has waited longest,
// if there is one, takes its place and is returned.
func (d *drc) abandon(c *Call) *Call {
	e := c.dup
	c.dup = nil
	d.mu.Lock()
	defer d.mu.Unlock()
	last := &e.waiters
	if *last == nil {
		delete(d.entries, e.key)
		if e.passing {
			passingEntries.Put(e)
		}
		return nil
	}
	for (*last).next != nil {
		last = &(*last).next
	}
	w := *last
	*last = nil
	e.waiting--
	w.dup = e
	return w
}

// push puts a done entry behind all others, and makes room if it must.
func (d *drc) push(e *drcEntry) {
	last := d.oldest.prev
	e.prev, e.next = last, &d.oldest
	last.next, d.oldest.prev = e, e
	d.octets += len(e.reply)
	d.done++
	for d.done > drcEntries || d.octets > drcOctets {
		d.remove(d.oldest.next)
	}
}

// expire removes what is too old to be asked for.
func (d *drc) expire(now time.Time) {
	for e := d.oldest.next; e != &d.oldest && now.Sub(e.at) > drcAge; e = d.oldest.next {
		d.remove(e)
	}
}

func (d *drc) remove(e *drcEntry) {
	e.prev.next, e.next.prev = e.next, e.prev
	d.octets -= len(e.reply)
	d.done--
	delete(d.entries, e.key)
}
