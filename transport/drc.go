// The duplicate request cache: a non-idempotent call is executed once, over whichever connection
// it is repeated.

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

// A drcKey identifies a call, whatever its connection: a copy comes over another connection, by any
// transport, and origin.repeatedBy compares the two. Address, certificate and user identify the
// client: others behind its address, and other users on its machine, MUST NOT get replies to calls
// that they could not make. AUTH_SYS's bytes include the client's own name, which distinguishes
// hosts behind one address. RPCSEC_GSS's bytes differ in each copy, so the key has the principal
// instead, and the flavor names the reply's protection. The checksum detects XIDs reused for
// another call. Checksum and length cover the arguments before chunks were removed, because a copy
// may come over the other transport, or with other chunks.
type drcKey struct {
	addr                  netip.Addr
	cert                  uint64 // peer.certificate
	owner                 Owner
	flavor                uint32
	cred                  uint64 // hash of the credential's body, or of the principal
	xid, prog, vers, proc uint32
	length                int
	sum                   uint64
}

// user returns the user charged for the reply.
func (k *drcKey) user() drcUser { return drcUser{k.owner, k.flavor, k.cred} }

// A drcUser is a host's user.
type drcUser struct {
	owner  Owner
	flavor uint32
	cred   uint64
}

// A drcEntry is a running call (done is false) or its reply.
type drcEntry struct {
	// The running call holds the entry (Call.dup), and so does the table, unless the entry is
	// passing. Guarded by drc.mu; for a passing entry by the lock in drc.running. A waiting
	// duplicate belongs to the entry: no goroutine runs the duplicate, but its connection's gate
	// counts it.
	key     drcKey
	from    *origin // the newest copy's
	passing bool    // the entry is in its call and in drc.running, until the call ends
	done    bool
	reply   []byte // the plain results; each copy's reply is protected on its own
	at      time.Time
	waiter  *Call // the newest duplicate, answered together with the original
	// The next entry for the same key, from another connection; a passing entry's is the next in
	// its bucket.
	next *drcEntry

	byAge   *list.Element // in drc.byAge, if done
	portion *portion      // the portion that contains this entry
	inTurn  *list.Element // in that portion's list
}

// size returns a done entry's charge.
func (e *drcEntry) size() int { return drcEntrySize + len(e.reply) }

type drc struct {
	seed    maphash.Seed
	running runningCalls

	replayed, joined atomic.Uint64 // repeated calls: see RepeatFigures

	mu      sync.Mutex
	entries map[drcKey]*drcEntry // without passing ones; next links entries with one key
	byAge   list.List            // done entries, oldest first
	all     portion              // all hosts together
	sweep   *time.Timer          // expires done entries while there are any
	closed  bool
}

func newDRC() *drc { return &drc{seed: maphash.MakeSeed(), entries: map[drcKey]*drcEntry{}} }

// close stops the expiry of entries.
func (d *drc) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.sweep != nil {
		d.sweep.Stop()
	}
}

// identify sets k to c's key. The checksum covers the first len(space) bytes of the arguments.
func (d *drc) identify(k *drcKey, c *Call, p *peer, space []byte) {
	h := &c.header
	length, lead := c.args.Unreduced(len(space), space)
	cred := maphash.Bytes(d.seed, h.Cred.Body)
	if c.secure.state.By != nil {
		cred = maphash.String(d.seed, c.Cred.Principal)
	}
	*k = drcKey{addr: p.addr, cert: p.certificate(d.seed), owner: c.Owner, flavor: uint32(c.Cred.Flavor), cred: cred,
		xid: h.XID, prog: h.Prog, vers: h.Vers, proc: h.Proc, length: length, sum: maphash.Bytes(d.seed, lead)}
}

// admit reports whether c, from p, must run. admit answers a duplicate now, or together with its
// original.
func (d *drc) admit(c *Call, p *peer) bool {
	if !p.addr.IsValid() {
		return true // clients without an address cannot be distinguished
	}
	if c.proc.Idempotent {
		var space [runningSummed]byte
		d.identify(&c.running.key, c, p, space[:])
		c.running.from = p.origin
		return d.settle(c, d.running.admit(c))
	}
	var space [drcSummed]byte
	e := &drcEntry{from: p.origin}
	d.identify(&e.key, c, p, space[:])
	return d.settle(c, d.enter(c, e))
}

// An admission is the decision that a call runs, or that it is a duplicate.
type admission struct {
	runs    bool
	reply   []byte // results of the original
	dropped *Call  // to drop: the replaced waiting duplicate, or the call itself
}

// settle acts on c's admission, and reports whether c must run.
func (d *drc) settle(c *Call, a admission) bool {
	switch {
	case a.runs:
		return true
	case a.reply != nil:
		d.replayed.Add(1)
		c.replay(a.reply)
		return false
	}
	d.joined.Add(1)
	if a.dropped != nil {
		a.dropped.via.drop(a.dropped)
	}
	return false
}

// enter finds the call that c repeats, or enters own for c. One lock covers both, so that exactly
// one of two concurrent copies runs.
func (d *drc) enter(c *Call, own *drcEntry) admission {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.entries[own.key]
	for found != nil && found.from != own.from {
		found = found.next
	}
	// First look for an entry of the same connection: checking other connections costs a system
	// call.
	for next := d.entries[own.key]; found == nil && next != nil; {
		e := next
		next = e.next
		repeats, f := e.from.repeatedBy(own.from)
		if repeats {
			found = e
			continue
		}
		c.Distinct = true
		// The client has all replies, and repeats none of its calls.
		if e.done && f == fateClosed {
			d.remove(e) // no call will repeat the entry's
		}
	}
	switch {
	case found == nil && c.Distinct && own.from.clientLeft():
		return admission{dropped: c} // the client's copy was read before c, or is still to come
	case found == nil:
		own.next = d.entries[own.key]
		d.entries[own.key] = own
		c.dup = own
		return admission{runs: true}
	case found.done:
		found.from = own.from
		return admission{reply: found.reply}
	}
	return admission{dropped: found.wait(c, own.from)}
}

// wait makes c, from o, wait for the reply to the running e. It returns the previous waiting
// duplicate, to drop: the previous duplicate's connection is gone, or is c's. The caller holds the
// lock of e's table.
func (e *drcEntry) wait(c *Call, o *origin) (left *Call) {
	c.here = nil // the goroutine of e's call ends it
	left, e.waiter, e.from = e.waiter, c, o
	return left
}

// finish stores c's reply, if possible, and answers its duplicate. finish returns the duplicate if
// the duplicate must run.
func (d *drc) finish(c *Call, success bool) (again *Call) {
	// A failed call may be repeated. A reply with items is not stored: a copy has other chunks,
	// and the bytes are gone after this reply.
	if !success || len(c.res.Items()) > 0 {
		return d.abandon(c)
	}
	e := c.dup
	c.dup = nil
	var w *Call
	if e.passing {
		w = d.running.remove(e)
	} else {
		w = d.keep(e, c.results())
	}
	if w != nil {
		w.replay(c.results())
	}
	return nil
}

// keep makes e a done entry, unless its reply is too long, and returns e's waiting duplicate, if
// any.
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

// abandon handles a call that has not run, or has failed. A waiting duplicate takes its place and
// is returned.
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

// push appends a done entry. If the cache is full it evicts entries of the largest user on the
// largest host, so that a busy user loses its own replies. The caller holds mu.
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

// expireIn schedules expire after t. The caller holds mu.
func (d *drc) expireIn(t time.Duration) {
	switch {
	case d.closed:
	case d.sweep == nil:
		d.sweep = time.AfterFunc(t, func() { d.expire(time.Now()) })
	default:
		d.sweep.Reset(t)
	}
}

// expire removes entries too old to be repeated, and reschedules itself while there are more. An
// empty cache releases its memory.
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

// remove removes a done entry from the cache. The caller holds mu.
func (d *drc) remove(e *drcEntry) {
	d.byAge.Remove(e.byAge)
	e.portion.remove(e)
	d.unlink(e)
}

// unlink removes e from the table. The caller holds mu.
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
