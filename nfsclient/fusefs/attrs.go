// The attributes of one object: how long they are trusted, and whether a change was our own.
//
// Three questions are answered here, without I/O and without a clock of its own.
//
// Which of two replies is newer? Many calls travel at once, and their replies come in any
// order. Each call takes a ticket when it is sent (ticks), and each set of attributes that is
// taken notes the number of the moment. A reply whose call was sent after that is
// newer; one that was under way meanwhile counts only if its ctime is later. What differs
// and can't be ordered is not trusted, and asked for anew.
//
// Was it us? What the server said of the object before our operation (wcc_data, RFC 1813
// §2.6) is what we had: then all that is new is our own doing. So it is while other
// operations of ours on the object are under way, whose replies may be out of order.
// Anything else was another client, and what we hold of the content is void.
//
// A server that can't have these attributes be of the operation's own moment says nothing of
// before, as RFC 1813 §2.6 asks of it: one of several that export the same files. A file that we
// write is taken to have changed by that, as by Linux's client. In a directory many make names.
// Neither such an operation nor attributes that come while others of ours are under way prove
// anything of its other names, so they are believed for no longer than without it, and are void
// after that, since nobody can tell whose changes the new times are of.
//
// For how long? As nfs(5) has it: the least time at first and after each foreign change,
// doubled each time that the attributes prove unchanged for as long as they were trusted.

package fusefs

import (
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// attrs is the cached attributes of a node, which guards them by its mutex.
type attrs struct {
	attr    nfs3.Fattr
	known   bool // attr holds something
	expired bool // attr is known to be out of date

	sent  time.Time     // when the call was sent that brought attr
	timeo time.Duration // for how long from then on attr is trusted
	since time.Time     // when timeo was set

	tick    uint64 // the moment when attr was taken
	busy    int    // operations of ours that change the object and are under way
	lastOwn uint64 // the moment when the last such operation ended

	// unproven: since sent, the directory has changed while operations of ours were under way, and
	// nothing proves that all of it was theirs.
	unproven bool

	// content counts the changes by others to what the object holds: the bytes of a
	// file, the names of a directory. What was cached under another number is void.
	content uint64
}

// A report is what a reply says of an object.
type report struct {
	tick uint64    // of the moment when the call was sent
	sent time.Time // likewise
	attr *nfs3.Fattr
	pre  *nfs3.WccAttr // before the operation; nil: not said
	own  bool          // the operation changes the object
}

// take enters a report at the moment now, and reports whether somebody else has changed
// the content.
func (a *attrs) take(r report, now uint64, lim timeouts) (foreign bool) {
	if !a.known {
		*a = attrs{attr: *r.attr, known: true, sent: r.sent, since: r.sent, timeo: lim.min, tick: now, busy: a.busy, lastOwn: a.lastOwn, content: a.content}
		return false
	}
	if r.tick <= a.tick && !later(r.attr.Ctime, a.attr.Ctime) {
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
	case a.unproven && a.left(r.sent) > 0:
		sent = a.sent
	case a.unproven:
		void, a.unproven = true, false // what the kernel was given of names ends with the same time: it need not be told
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

// later reports whether a is after b.
func later(a, b nfs3.Time) bool { return a.Sec > b.Sec || a.Sec == b.Sec && a.Nsec > b.Nsec }

// begin and end stand around an operation of ours that changes the object; now is the moment.
func (a *attrs) begin() { a.busy++ }

func (a *attrs) end(now uint64) {
	a.busy--
	a.lastOwn = now
}

// left is for how long the attributes may still be trusted.
func (a *attrs) left(now time.Time) time.Duration {
	if !a.known || a.expired {
		return 0
	}
	return max(a.timeo-now.Sub(a.sent), 0)
}
