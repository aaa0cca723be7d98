// The attributes of one object: how long they are trusted, and whether a change was our own.
//
// This file answers three questions, without I/O and without reading a clock.
//
// Which of two replies is newer? Many calls are in flight, and their replies arrive in any order.
// Each call takes a ticket when it is sent (ticks). Accepted attributes note the current ticket. A
// reply to a call sent after this ticket is newer. A reply to an earlier call counts only if its
// ctime is later. Attributes that differ without such an order are fetched again at the next use.
//
// Did we change the object? We did if the server's attributes from before our operation (wcc_data,
// RFC 1813 §2.6) equal the cached ones. The mount also assumes a change of our own while other
// operations of ours on the object are in flight, because replies may be out of order. Any other
// change came from another client and voids the cached content.
//
// If a server cannot sample these attributes atomically with the operation it omits them, as RFC
// 1813 §2.6 requires. An example is one of several servers with the same exports. If we write a
// file on such a server, we count the change as our own, like Linux's client. Directories differ,
// because many clients make names in one directory. Without these attributes an operation proves
// nothing about the directory's other names, nor do replies during other operations. Then cached
// names expire at their previous deadline, because the new times may include foreign changes.
//
// How long are attributes trusted? As nfs(5) describes: for the minimum at first and after each
// foreign change. The time doubles whenever attributes prove unchanged for as long as they were
// trusted.

package fusefs

import (
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// attrs holds the cached attributes of a node. The node's mutex guards it.
type attrs struct {
	attr    nfs3.Fattr
	known   bool // attr is valid
	expired bool // attr is known to be out of date

	sent  time.Time     // when the call for attr was sent
	timeo time.Duration // how long attr is trusted from sent on
	since time.Time     // when timeo was set

	tick    uint64 // the moment when attr was accepted
	busy    int    // our changes of the object in flight
	lastOwn uint64 // the moment when our last change ended

	// unproven: since sent, the directory has changed during operations of ours, and nothing proves
	// that they made all the changes.
	unproven bool

	// content counts content changes by others: the bytes of a file, the names of a directory.
	// Cached content with another number is void.
	content uint64
}

// A report carries the attributes of an object from one reply.
type report struct {
	tick uint64    // ticket taken when the call was sent
	sent time.Time // time when the call was sent
	attr *nfs3.Fattr
	pre  *nfs3.WccAttr // before the operation; nil: not in the reply
	own  bool          // the operation changes the object
}

// take enters a report at the moment now. It reports whether another client has changed the
// content.
func (a *attrs) take(r report, now uint64, lim timeouts) (foreign bool) {
	if !a.known {
		*a = attrs{attr: *r.attr, known: true, sent: r.sent, since: r.sent, timeo: lim.min, tick: now, busy: a.busy, lastOwn: a.lastOwn, content: a.content}
		return false
	}
	if r.tick <= a.tick && !isAfter(r.attr.Ctime, a.attr.Ctime) {
		if r.attr.Ctime == a.attr.Ctime && *r.attr != a.attr {
			a.expired = true
		}
		return false
	}
	was, is := a.attr.Wcc(), r.attr.Wcc()
	overlap := a.lastOwn >= r.tick
	if r.own {
		overlap = overlap || a.busy > 1
	} else {
		overlap = overlap || a.busy > 0
	}
	proven := r.own && r.pre != nil && *r.pre == was
	mine := overlap || proven || r.own && r.pre == nil
	changed := was.Size != is.Size || was.Mtime != is.Mtime
	if changed {
		foreign = !mine
	}
	if r.own && r.pre != nil && !overlap && (r.pre.Size != was.Size || r.pre.Mtime != was.Mtime) {
		foreign = true
	}
	sent, void := r.sent, foreign
	a.unproven = !foreign && (a.unproven || changed && !proven && r.attr.Type == nfs3.TypeDir)
	switch {
	case a.unproven && a.ttl(r.sent) > 0:
		sent = a.sent
	case a.unproven:
		void, a.unproven = true, false // the kernel's names expire too: no notice
	case foreign, was != is && !mine:
		a.timeo, a.since = lim.min, r.sent
	case r.sent.Sub(a.since) >= a.timeo:
		a.timeo, a.since = min(max(2*a.timeo, lim.min), lim.max), r.sent
	}
	if void {
		a.content++
	}
	a.attr, a.sent, a.tick, a.expired = *r.attr, sent, now, false
	return foreign
}

func isAfter(a, b nfs3.Time) bool { return a.Sec > b.Sec || a.Sec == b.Sec && a.Nsec > b.Nsec }

// begin starts a change of ours to the object. end ends it at the moment now.
func (a *attrs) begin() { a.busy++ }

func (a *attrs) end(now uint64) {
	a.busy--
	a.lastOwn = now
}

// ttl returns how long the attributes are still trusted.
func (a *attrs) ttl(now time.Time) time.Duration {
	if !a.known || a.expired {
		return 0
	}
	return max(a.timeo-now.Sub(a.sent), 0)
}
