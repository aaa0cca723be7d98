// The duplicate request cache: a call that is not idempotent is done once, over whichever
// connection it comes again.

package transport

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the cache.
const (
	drcEntries  = 16384
	drcBytes    = 16 << 20
	drcReplyMax = 2048 // replies above are not kept: calls that are not idempotent have small ones
	drcAge      = 2 * time.Minute
	drcSummed   = 1024 // leading bytes of the arguments that the checksum covers
	drcWaiters  = 4    // duplicates that may wait for one running call
)

// A drcKey identifies a call. The client is known by its address without the
// port, since a client that reconnects may come from another one, and by the user that
// calls: others on its machine MUST NOT get replies of calls that they could not make.
// The checksum guards against XIDs that a client uses again for another call. Both it and
// the length are of the arguments before chunks were taken out of them, since the copy of
// a call may come over the other transport, or with other chunks.
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
	// The call that runs has the entry (Call.dup), the table too unless it is passing; drc.mu, or that of drc.running
	// for passing ones, guards it. A duplicate belongs to its entry while it is in waiters: it is on no loop and
	// has no worker then, but it counts at its connection's gate.
	key     drcKey
	passing bool // part of its call and in drc.running: removed when the call ends
	done    bool
	reply   []byte
	at      time.Time
	waiters *Call // duplicates to answer with the original
	waiting int
	// In the list by age; of passing entries, next is that of the bucket.
	prev, next *drcEntry
}

type drc struct {
	seed    maphash.Seed
	running runningCalls

	replayed, joined atomic.Uint64 // calls that came again: see RepeatFigures

	mu      sync.Mutex
	entries map[drcKey]*drcEntry // but for passing ones
	oldest  drcEntry             // ring: oldest.next is the oldest done entry
	bytes   int
	done    int
	sweep   *time.Timer // calls expire while there are done entries
	closed  bool
}

func newDRC() *drc {
	d := &drc{seed: maphash.MakeSeed(), entries: map[drcKey]*drcEntry{}}
	d.oldest.prev, d.oldest.next = &d.oldest, &d.oldest
	return d
}

// close ends the expiry of entries.
func (d *drc) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.sweep != nil {
		d.sweep.Stop()
	}
}

// identify sets k to the key of c. Its checksum covers as many bytes of the arguments as space has.
func (d *drc) identify(k *drcKey, c *Call, client netip.Addr, space []byte) {
	h := &c.header
	length, lead := c.args.Unreduced(len(space), space)
	*k = drcKey{addr: client, owner: c.Owner, flavor: uint32(c.Cred.Flavor), uid: c.Cred.UID, gid: c.Cred.GID,
		xid: h.XID, prog: h.Prog, vers: h.Vers, proc: h.Proc, length: length, sum: maphash.Bytes(d.seed, lead)}
}

// admit reports whether c is to be run. A duplicate is answered
// now, or with its original when that ends.
func (d *drc) admit(c *Call, client netip.Addr) bool {
	if !client.IsValid() {
		return true // clients without an address cannot be told apart
	}
	if c.proc.Idempotent {
		var space [runningSummed]byte
		d.identify(&c.running.key, c, client, space[:])
		if d.running.admit(c) {
			return true
		}
		d.joined.Add(1)
		return false
	}
	var space [drcSummed]byte
	var key drcKey
	d.identify(&key, c, client, space[:])
	d.mu.Lock()
	// Found and entered under one lock, so of two copies that arrive together exactly one runs.
	e := d.entries[key]
	switch {
	case e == nil:
		c.dup = &drcEntry{key: key}
		d.entries[key] = c.dup
		d.mu.Unlock()
		return true
	case e.done:
		c.res.Raw(e.reply)
		d.mu.Unlock()
		d.replayed.Add(1)
		c.via.reply(c)
		return false
	}
	left := e.wait(c)
	d.mu.Unlock()
	d.joined.Add(1)
	if left != nil {
		left.via.drop(left)
	}
	return false
}

// wait has c wait for the reply of e, which runs. Where too many wait, the one that has
// waited longest is returned, to be dropped: a client sends a call again because the
// connection it came by has ended, so the newest copy is the one whose reply arrives.
// The caller holds the lock of e's table.
func (e *drcEntry) wait(c *Call) (left *Call) {
	c.onLoop = false
	c.next, e.waiters = e.waiters, c
	if e.waiting++; e.waiting > drcWaiters {
		left = e.longest()
	}
	return left
}

// longest takes the duplicate that has waited longest out of those that wait, of which there
// is one. The caller holds the lock of e's table.
func (e *drcEntry) longest() *Call {
	last := &e.waiters
	for (*last).next != nil {
		last = &(*last).next
	}
	w := *last
	*last = nil
	e.waiting--
	return w
}

// finish keeps the reply of c, if there is one to keep, and answers the duplicates.
func (d *drc) finish(c *Call, success bool) {
	e := c.dup
	c.dup = nil
	// A reply with items is not kept: the chunks of a copy are others, and its bytes are gone when this one has left.
	// What has failed may be tried again. Duplicates that wait are dropped then, and come again.
	usable := success && len(c.res.Items()) == 0 && c.res.Len() <= drcReplyMax
	if e.passing {
		d.running.remove(e)
		e.answer(c, usable)
		return
	}
	d.mu.Lock()
	if usable {
		e.done, e.at = true, time.Now()
		e.reply = append([]byte(nil), c.res.Bytes()...)
		d.push(e)
	} else {
		delete(d.entries, e.key)
	}
	d.mu.Unlock()
	e.answer(c, usable)
}

// answer ends the duplicates of c with its reply, or drops them. No more of them can come.
func (e *drcEntry) answer(c *Call, usable bool) {
	w := e.waiters
	e.waiters = nil
	for w != nil {
		next := w.next
		w.next = nil
		if usable {
			w.res.Raw(c.res.Bytes())
			w.via.reply(w)
		} else {
			w.via.drop(w)
		}
		w = next
	}
}

// abandon is for c that is not going to run. The duplicate that has waited longest,
// if there is one, takes its place and is returned.
func (d *drc) abandon(c *Call) *Call {
	e := c.dup
	c.dup = nil
	if e.passing {
		return d.running.abandon(e)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	w := e.takeWaiter()
	if w == nil {
		delete(d.entries, e.key)
		return nil
	}
	w.dup = e
	return w
}

// takeWaiter takes the duplicate that has waited longest out of those that wait; nil when none
// does. The caller holds the lock of e's table.
func (e *drcEntry) takeWaiter() *Call {
	if e.waiters == nil {
		return nil
	}
	return e.longest()
}

// push puts a done entry after all others, and makes room if it must. The caller holds mu.
func (d *drc) push(e *drcEntry) {
	last := d.oldest.prev
	e.prev, e.next = last, &d.oldest
	last.next, d.oldest.prev = e, e
	d.bytes += len(e.reply)
	d.done++
	for d.done > drcEntries || d.bytes > drcBytes {
		// The oldest first, whoever's it is: RFC 5531 asks for no time at all, and what is asked for again is
		// nearly always seconds old.
		d.remove(d.oldest.next)
	}
	if d.done == 1 {
		d.expireIn(drcAge)
	}
}

// expireIn has expire called after t. The caller holds mu.
func (d *drc) expireIn(t time.Duration) {
	switch {
	case d.closed:
	case d.sweep == nil:
		d.sweep = time.AfterFunc(t, func() { d.expire(time.Now()) })
	default:
		d.sweep.Reset(t)
	}
}

// expire removes what is too old to be asked for, and comes again while there is more. An
// empty cache gives its memory back.
func (d *drc) expire(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for e := d.oldest.next; e != &d.oldest && now.Sub(e.at) >= drcAge; e = d.oldest.next {
		d.remove(e)
	}
	if d.done > 0 {
		d.expireIn(drcAge - now.Sub(d.oldest.next.at))
	} else if len(d.entries) == 0 {
		d.entries = map[drcKey]*drcEntry{}
	}
}

func (d *drc) remove(e *drcEntry) {
	e.prev.next, e.next.prev = e.next, e.prev
	d.bytes -= len(e.reply)
	d.done--
	delete(d.entries, e.key)
}
