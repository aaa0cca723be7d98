// The duplicate request cache: a call that is not idempotent is done once, over whichever
// connection it comes again.

package transport

import (
	"bytes"
	"container/list"
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the cache.
const (
	drcBytes    = 16 << 20 // of replies, and drcEntrySize for each
	drcReplyMax = 2048     // larger replies are not kept; non-idempotent calls have small ones
	drcAge      = 2 * time.Minute
	drcSummed   = 1024 // leading bytes of the arguments that the checksum covers

	drcEntrySize = 512 // memory of an entry besides its reply
)

// A drcKey identifies a call, except for its connection: a copy comes over another one, of any
// transport (origin.repeatedBy). The client is identified by its address and the calling user:
// others on its machine MUST NOT get replies of calls that they could not make. The bytes of the
// credential have the client's own name, which distinguishes hosts behind one address.
// The checksum guards against XIDs that a client uses again for another call. Both it and
// the length are of the arguments before chunks were taken out of them, since the copy of
// a call may come over the other transport, or with other chunks.
type drcKey struct {
	addr                  netip.Addr
	owner                 Owner
	flavor                uint32
	cred                  uint64 // a hash of the credential's body
	xid, prog, vers, proc uint32
	length                int
	sum                   uint64
}

// user is the user with the portion of the cache that holds the reply.
func (k *drcKey) user() drcUser { return drcUser{k.owner, k.flavor, k.cred} }

// A drcUser is a user of a host.
type drcUser struct {
	owner  Owner
	flavor uint32
	cred   uint64
}

// A drcEntry is a call that runs (done is false) or its reply.
type drcEntry struct {
	// The running call holds the entry (Call.dup), and so does the table unless the entry is
	// passing. It is guarded by drc.mu, a passing one by the lock in drc.running. A duplicate
	// belongs to the entry while it is its waiter: it is on no loop and has no worker then, but
	// it counts at its connection's gate.
	key     drcKey
	from    *origin // by which its newest copy came
	passing bool    // part of its call and in drc.running: removed when the call ends
	done    bool
	reply   []byte
	at      time.Time
	waiter  *Call // the newest duplicate, to answer with the original
	// Others of the same key, from other connections; of passing entries, others of the bucket.
	next *drcEntry

	byAge  *list.Element // in drc.byAge, of done entries
	of     *portion      // contains it
	inTurn *list.Element // in the portion's list
}

// size is the share of a done entry in the cache.
func (e *drcEntry) size() int { return drcEntrySize + len(e.reply) }

type drc struct {
	seed    maphash.Seed
	running runningCalls

	replayed, joined atomic.Uint64 // calls that came again: see RepeatFigures

	mu      sync.Mutex
	entries map[drcKey]*drcEntry // except passing ones; next links those of several connections
	byAge   list.List            // of done entries, the oldest first
	all     portion              // of all hosts
	sweep   *time.Timer          // calls expire while there are done entries
	closed  bool
}

func newDRC() *drc { return &drc{seed: maphash.MakeSeed(), entries: map[drcKey]*drcEntry{}} }

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
	*k = drcKey{addr: client, owner: c.Owner, flavor: uint32(c.Cred.Flavor), cred: maphash.Bytes(d.seed, h.Cred.Body),
		xid: h.XID, prog: h.Prog, vers: h.Vers, proc: h.Proc, length: length, sum: maphash.Bytes(d.seed, lead)}
}

// admit reports whether c, from p, must run. A duplicate is answered
// now, or with its original when that ends.
func (d *drc) admit(c *Call, p *peer) bool {
	if !p.addr.IsValid() {
		return true // clients without an address cannot be told apart
	}
	if c.proc.Idempotent {
		var space [runningSummed]byte
		d.identify(&c.running.key, c, p.addr, space[:])
		c.running.from = p.origin
		return d.settle(c, d.running.admit(c))
	}
	var space [drcSummed]byte
	e := &drcEntry{from: p.origin}
	d.identify(&e.key, c, p.addr, space[:])
	return d.settle(c, d.enter(c, e))
}

// An admission decides that a call runs, or that it is a duplicate.
type admission struct {
	runs  bool
	reply []byte // of the call that it repeats
	left  *Call  // to drop: the replaced waiting duplicate, or the call itself
}

// settle carries out the admission of c, and reports whether c must run.
func (d *drc) settle(c *Call, a admission) bool {
	switch {
	case a.runs:
		return true
	case a.reply != nil:
		d.replayed.Add(1)
		c.res.Raw(a.reply)
		c.via.reply(c)
		return false
	}
	d.joined.Add(1)
	if a.left != nil {
		a.left.via.drop(a.left)
	}
	return false
}

// enter finds the call that c repeats, or enters own for c. It does both under one lock, so that
// exactly one of two copies that arrive together runs.
func (d *drc) enter(c *Call, own *drcEntry) admission {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.entries[own.key]
	for found != nil && found.from != own.from {
		found = found.next
	}
	// A repetition over its own connection asks nothing about others: that costs a system call for
	// each of them.
	for next := d.entries[own.key]; found == nil && next != nil; {
		e := next
		next = e.next
		repeats, f := e.from.repeatedBy(own.from)
		if repeats {
			found = e
			continue
		}
		c.Distinct = true
		if e.done && f == fateClosed {
			d.remove(e) // no call repeats it
		}
	}
	switch {
	case found == nil && c.Distinct && own.from.left():
		return admission{left: c} // it was read after its copy, or the client repeats it
	case found == nil:
		own.next = d.entries[own.key]
		d.entries[own.key] = own
		c.dup = own
		return admission{runs: true}
	case found.done:
		found.from = own.from
		return admission{reply: found.reply}
	}
	return admission{left: found.wait(c, own.from)}
}

// wait makes c, from o, wait for the reply of e, which runs. It returns the duplicate that has
// waited until now, to drop: the connection of that one is gone, or is that of c. The caller holds
// the lock of e's table.
func (e *drcEntry) wait(c *Call, o *origin) (left *Call) {
	c.onLoop = false
	left, e.waiter, e.from = e.waiter, c, o
	return left
}

// finish keeps the reply of c, if it can be kept, and answers its duplicate. It returns the
// duplicate if that must run itself.
func (d *drc) finish(c *Call, success bool) (again *Call) {
	// A failed call may be repeated. A reply with items is not kept: a copy has other chunks, and
	// the bytes are gone when this reply has left.
	if !success || len(c.res.Items()) > 0 {
		return d.abandon(c)
	}
	e := c.dup
	c.dup = nil
	var w *Call
	if e.passing {
		w = d.running.remove(e)
	} else {
		w = d.keep(e, c.res.Bytes())
	}
	if w != nil {
		w.res.Raw(c.res.Bytes())
		w.via.reply(w)
	}
	return nil
}

// keep makes e a done entry, unless its reply is too long, and returns the duplicate that waits for
// it, if any.
func (d *drc) keep(e *drcEntry, reply []byte) (w *Call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, e.waiter = e.waiter, nil
	if len(reply) > drcReplyMax {
		d.unlink(e)
		return w
	}
	e.done, e.at, e.reply = true, time.Now(), bytes.Clone(reply)
	d.push(e)
	return w
}

// abandon is for a call that has not run, or has failed. The waiting duplicate, if any, takes its
// place and is returned.
func (d *drc) abandon(c *Call) *Call {
	e := c.dup
	c.dup = nil
	if e.passing {
		return d.running.abandon(e)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	w := e.waiter
	if e.waiter = nil; w == nil {
		d.unlink(e)
		return nil
	}
	w.dup = e
	return w
}

// push appends a done entry, and evicts others if the cache is full: from the host with most of the
// cache, and there from the user with most. So a busy user loses its own replies. The caller holds
// mu.
func (d *drc) push(e *drcEntry) {
	e.byAge = d.byAge.PushBack(e)
	d.all.part(hostPrefix(e.key.addr)).part(e.key.user()).add(e)
	for d.all.size > drcBytes {
		d.remove(d.all.largest())
	}
	if d.byAge.Len() == 1 {
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
	for d.byAge.Len() > 0 {
		e := d.byAge.Front().Value.(*drcEntry)
		if left := drcAge - now.Sub(e.at); left > 0 {
			d.expireIn(left)
			return
		}
		d.remove(e)
	}
	if len(d.entries) == 0 {
		d.entries = map[drcKey]*drcEntry{}
	}
}

// remove takes a done entry out of the cache. The caller holds mu.
func (d *drc) remove(e *drcEntry) {
	d.byAge.Remove(e.byAge)
	e.of.remove(e)
	d.unlink(e)
}

// unlink takes e out of the table. The caller holds mu.
func (d *drc) unlink(e *drcEntry) {
	at := d.entries[e.key]
	switch {
	case at != e:
		for at.next != e {
			at = at.next
		}
		at.next = e.next
	case e.next == nil:
		delete(d.entries, e.key)
	default:
		d.entries[e.key] = e.next
	}
	e.next = nil
}
