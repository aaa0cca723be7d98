// A file with locks: its holdings, who waits, its shares, and what other programs are shown of
// them.

package nlm

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// A fileKey names a file for as long as it exists.
type fileKey struct {
	export string
	ref    nfsserver.Ref
}

// A file is in Service.files while it has locks, waiters or shares, or a call is about it.
type file struct {
	// Set once.
	key fileKey
	svc *Service

	users int // guarded by Service.mu: calls that hold the file, or wait for mu

	// Guards all below. The file system is called under it: what hangs holds up the calls on this
	// file and no other.
	mu      sync.Mutex
	host    *host                // that the file is charged to; nil: it is not open
	kernel  nfsserver.FileLocks  // nil: not open, or no other program can lock the file
	local   nfsserver.LocalLocks // kernel, if the file is one of this machine; otherwise nil
	inode   inode                // of local; changes under waitGraph.mu, too
	locks   lockset              // changes under waitGraph.mu, too
	waiters []*waiter            // the oldest first
	shares  []share
}

// A waiter is a blocking request. While it waits it has a place in the queue of its file; then it
// holds the lock, and its client is told so until it has confirmed it. Whatever takes it out of
// file.waiters ends it.
type waiter struct {
	// Set once.
	file *file
	span
	owner     *owner
	exclusive bool
	since     time.Time     // when it was asked for
	call      nlm4.TestArgs // as the client made it, copied: what GRANTED says

	// Guarded by file.mu.
	granted bool
	before  lockset // what the owner held of the span when it was granted
}

// errConflict: a lock is in the way.
var errConflict = errors.New("conflicting lock")

// errNoLocks: a bound would be passed.
var errNoLocks = errors.New("too many locks")

// open opens the locks of other programs on the file, on behalf of a host. locks is nil for a file
// that no other program can lock.
func (f *file) open(locks nfsserver.Locker, h *host) error {
	if f.host != nil {
		return nil
	}
	if !f.svc.ledger.chargeFile(h) {
		return errNoLocks
	}
	if locks != nil {
		k, err := locks.OpenLocks(f.key.ref)
		if err != nil {
			f.svc.ledger.creditFile(h)
			return err
		}
		f.kernel = k
		f.local, _ = k.(nfsserver.LocalLocks)
		f.svc.waits.open(f, inodeOf(f.local))
	}
	f.host = h
	return nil
}

// empty reports whether nothing of the file is to be kept.
func (f *file) empty() bool { return len(f.locks)+len(f.waiters)+len(f.shares) == 0 }

// shut is the opposite of open, of a file that is empty and has no users.
func (f *file) shut() {
	if f.kernel != nil {
		f.svc.waits.shut(f)
		f.kernel.Close()
	}
	if f.host != nil {
		f.svc.ledger.creditFile(f.host)
	}
	f.kernel, f.local, f.host = nil, nil, nil
}

// acquire gives o a lock, in place of what it holds of s. errConflict: another client, or
// with the error EAGAIN another program, is in the way.
func (f *file) acquire(o *owner, s span, exclusive bool) error {
	if f.locks.conflict(o, s, exclusive) != nil {
		return errConflict
	}
	return f.change(o, s, func(l *lockset) { l.set(o, s, exclusive) })
}

// release takes s from what o holds.
func (f *file) release(o *owner, s span) error {
	return f.change(o, s, func(l *lockset) { l.clear(o, s) })
}

// change has do change the locks of o within s, and nothing else. With an error they are what they
// were. It copies no more than the locks that s overlaps or touches, as those of a file can be
// many. do is called for these first, to see what comes of it.
func (f *file) change(o *owner, s span, do func(*lockset)) error {
	now := f.locks.near(s)
	next := slices.Clone(now)
	do(&next)
	d := len(next) - len(now)
	if d > 0 && !f.svc.ledger.charge(o, counts{locks: d}) {
		return errNoLocks
	}
	if f.kernel != nil {
		parts := next.parts(s)
		if len(parts) > 1 {
			// What is released: it takes as long as what has changed, not as what others have
			// there.
			parts = changes(now.parts(s), parts)
		}
		// What is locked is one part, so that where another program is in the way nothing has been
		// changed.
		for _, p := range parts {
			if err := f.kernel.Set(p.start, p.end, p.kind); err != nil {
				if d > 0 {
					f.svc.ledger.credit(o, counts{locks: d})
				}
				return err
			}
		}
	}
	f.svc.waits.change(f, do)
	if d < 0 {
		f.svc.ledger.credit(o, counts{locks: -d})
	}
	return nil
}

// find returns the waiter of a request, or nil.
func (f *file) find(o *owner, s span, exclusive bool) *waiter {
	for _, w := range f.waiters {
		if w.owner == o && w.span == s && w.exclusive == exclusive {
			return w
		}
	}
	return nil
}

// has reports whether a waiter has not been ended.
func (f *file) has(w *waiter) bool { return slices.Contains(f.waiters, w) }

// settle ends the waiters of o that hold their lock and overlap s: a client that goes on with
// these bytes knows that it has them.
func (f *file) settle(o *owner, s span) {
	for _, w := range slices.Clone(f.waiters) {
		if w.owner == o && w.granted && w.overlaps(s) {
			f.drop(w)
		}
	}
}

// drop ends a waiter. What it holds it keeps.
func (f *file) drop(w *waiter) {
	if i := slices.Index(f.waiters, w); i >= 0 {
		f.waiters = slices.Delete(f.waiters, i, i+1)
		f.svc.waits.end(w)
		f.svc.ledger.credit(w.owner, counts{waiters: 1})
	}
}

// undo takes from a waiter the lock that its client does not want, and gives back what it had
// before.
func (f *file) undo(w *waiter) {
	err := f.change(w.owner, w.span, func(l *lockset) {
		l.clear(w.owner, w.span)
		for _, h := range w.before {
			// Of a lock that became shared by the grant others may have had a share since.
			l.set(w.owner, h.span, h.exclusive && l.conflict(w.owner, h.span, true) == nil)
		}
	})
	if err != nil {
		_ = f.release(w.owner, w.span) // as far as the file system lets us
	}
}

// grant gives the lock to those who wait for it and can have it, the oldest first, and has
// their clients called. It is called after whatever may have freed something.
func (f *file) grant() {
	foreign := false
	for _, w := range f.waiters {
		if w.granted {
			continue
		}
		before := f.locks.of(w.owner, w.span)
		switch err := f.acquire(w.owner, w.span, w.exclusive); {
		case err == nil:
			w.granted, w.before = true, before
			f.svc.waits.end(w)
			f.svc.tally.granted.Add(1)
			f.svc.callGranted(w)
		case !errors.Is(err, errConflict):
			foreign = true // nobody tells us when another program has released its lock, or a bound has room
		}
	}
	if foreign {
		f.svc.poll(f)
	}
}

// isForeign reports whether another program's lock is in the way.
func isForeign(err error) bool { return errors.Is(err, syscall.EAGAIN) }
