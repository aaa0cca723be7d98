// A file with locks: its holdings, waiters and shares, and the lock visible to other programs.

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

// A fileKey names a file for as long as the file exists.
type fileKey struct {
	export string
	tree   uint64 // with nfsserver.Trees
	ref    nfsserver.Ref
}

// A file is in Service.files while it has locks, waiters or shares, or a call uses it.
type file struct {
	// Set once.
	key fileKey
	svc *Service

	users int // guarded by Service.mu: calls using the file, or waiting for mu

	// Guards the fields below. mu is held during calls to the file system, so a hanging file system
	// delays only the calls on this file.
	mu      sync.Mutex
	host    *host                // charged for the open file; nil: the file is not open
	kernel  nfsserver.FileLocks  // nil: not open, or no other program can lock the file
	local   nfsserver.LocalLocks // kernel, if the file is on this machine; otherwise nil
	inode   inode                // from local; also changes under waitGraph.mu
	locks   lockset              // also changes under waitGraph.mu
	waiters []*waiter            // oldest first
	shares  []share
}

// A waiter is a blocking request. It first waits in its file's queue. Once granted it holds the
// lock, and the server calls its client until the client confirms. Removal from file.waiters ends
// the waiter.
type waiter struct {
	// Set once.
	file *file
	span
	owner     *owner
	exclusive bool
	since     time.Time     // of the request
	call      nlm4.TestArgs // a copy of the client's arguments, sent with GRANTED

	// Guarded by file.mu.
	granted bool
	before  lockset // the owner's locks in the span before the grant
}

// errConflict: another client's lock conflicts.
var errConflict = errors.New("conflicting lock")

// errNoLocks: the request would exceed a limit on locks.
var errNoLocks = errors.New("too many locks")

// open opens the file's locks against other programs, and charges the file to h. locks is nil if no
// other program can lock the file.
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

// empty reports whether the file has no locks, waiters and shares.
func (f *file) empty() bool { return len(f.locks)+len(f.waiters)+len(f.shares) == 0 }

// shut undoes open. The file is empty and has no users.
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

// acquire gives o the lock on s, replacing the owner's earlier locks there. The error is
// errConflict for another client's conflicting lock, and EAGAIN for a local program's.
func (f *file) acquire(o *owner, s span, exclusive bool) error {
	if f.locks.conflict(o, s, exclusive) != nil {
		return errConflict
	}
	return f.change(o, s, func(l *lockset) { l.set(o, s, exclusive) })
}

// release removes s from the locks of o.
func (f *file) release(o *owner, s span) error {
	return f.change(o, s, func(l *lockset) { l.clear(o, s) })
}

// change lets do change the locks of o within s. On error the locks stay unchanged. A file can have
// many locks, so change copies only the locks overlapping or touching s. It runs do on the copy
// first, to find the locks that will be added and removed.
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
			// For a release the kernel calls are as many as the changed parts, however many locks
			// others have there.
			parts = changes(now.parts(s), parts)
		}
		// A new lock is a single part. So if another program's lock conflicts, no part has changed
		// yet.
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

// find returns the waiter of an equal request, or nil.
func (f *file) find(o *owner, s span, exclusive bool) *waiter {
	for _, w := range f.waiters {
		if w.owner == o && w.span == s && w.exclusive == exclusive {
			return w
		}
	}
	return nil
}

// has reports whether a waiter is still in the queue or being confirmed.
func (f *file) has(w *waiter) bool { return slices.Contains(f.waiters, w) }

// endGranted ends the granted waiters of o overlapping s: a client's further call about these bytes
// proves its knowledge of the grant.
func (f *file) endGranted(o *owner, s span) {
	for _, w := range slices.Clone(f.waiters) {
		if w.owner == o && w.granted && w.overlaps(s) {
			f.drop(w)
		}
	}
}

// drop ends a waiter and keeps its lock.
func (f *file) drop(w *waiter) {
	if i := slices.Index(f.waiters, w); i >= 0 {
		f.waiters = slices.Delete(f.waiters, i, i+1)
		f.svc.waits.end(w)
		f.svc.ledger.credit(w.owner, counts{waiters: 1})
	}
}

// undo takes back a lock refused by the waiter's client, and restores the owner's earlier locks.
func (f *file) undo(w *waiter) {
	err := f.change(w.owner, w.span, func(l *lockset) {
		l.clear(w.owner, w.span)
		for _, h := range w.before {
			// If the grant turned an exclusive lock into a shared lock, others may share the bytes
			// now.
			l.set(w.owner, h.span, h.exclusive && l.conflict(w.owner, h.span, true) == nil)
		}
	})
	if err != nil {
		_ = f.release(w.owner, w.span) // as far as the file system permits
	}
}

// grant gives waiters their locks where nothing conflicts, oldest first, and calls their clients.
// Call grant after each change that can free a lock.
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
			// No event reports another program's release, or new room within a bound.
			foreign = true
		}
	}
	if foreign {
		f.svc.poll(f)
	}
}

// isForeign reports whether a local program's lock conflicts.
func isForeign(err error) bool { return errors.Is(err, syscall.EAGAIN) }
