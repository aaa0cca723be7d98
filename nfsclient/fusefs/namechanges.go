// Names with changes or LOOKUPs in flight: an answer from before a change is not cached.
//
// The kernel looks up names without a lock while it removes, makes or replaces the same name. The
// server's answers arrive in any order, so they do not show the name's present state.

package fusefs

import (
	"context"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A nameUse counts the calls in flight for one name.
type nameUse struct {
	calls   int           // LOOKUPs and changes; at 0 the nameUse is removed
	changes int           // calls changing the name
	version uint64        // counts starts and ends of changes
	changed chan struct{} // closed when the last change ends; nil: no change in flight
}

// use returns the nameUse of a place with one more call counted. The caller holds t.mu.
func (t *table) use(p dirName) *nameUse {
	u := t.uses[p]
	if u == nil {
		u = new(nameUse)
		t.uses[p] = u
	}
	u.calls++
	return u
}

// unuse ends one call. The caller holds t.mu.
func (t *table) unuse(p dirName, u *nameUse) {
	if u.calls--; u.calls == 0 {
		delete(t.uses, p)
	}
}

// changeNames starts a change of names; the caller calls end after it.
func (t *table) changeNames(places ...dirName) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range places {
		u := t.use(p)
		u.version++
		if u.changes++; u.changes == 1 {
			u.changed = make(chan struct{})
		}
	}
	return func() { t.endChanges(places) }
}

func (t *table) endChanges(places []dirName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range places {
		u := t.uses[p]
		u.version++
		if u.changes--; u.changes == 0 {
			close(u.changed)
			u.changed = nil
		}
		t.unuse(p, u)
	}
}

// awaitName waits until no change of the name is in flight.
func (t *table) awaitName(ctx context.Context, p dirName) error {
	for {
		t.mu.Lock()
		var changed chan struct{}
		if u := t.uses[p]; u != nil {
			changed = u.changed
		}
		t.mu.Unlock()
		if changed == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A nameLookup is a LOOKUP in flight.
type nameLookup struct {
	dirName
	use     *nameUse
	version uint64
	content uint64 // the directory's content number
}

// beginLookup starts a LOOKUP; endLookup, endLookupAbsent or abandonLookup ends it.
func (t *table) beginLookup(p dirName) nameLookup {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.use(p)
	return nameLookup{p, u, u.version, p.dir.version()}
}

// current reports whether the name is unchanged since beginLookup. The caller holds t.mu.
func (q *nameLookup) current() bool { return q.use.changes == 0 && q.use.version == q.version }

// endLookup ends a LOOKUP with a handle, and binds the name to it unless the name changed
// meanwhile.
func (t *table) endLookup(q nameLookup, fh nfs3.FH) (n *node, current bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.unuse(q.dirName, q.use)
	n = t.refNode(fh)
	if current = q.current(); current {
		t.bind(q.dir, q.name, n, q.content)
	}
	return n, current
}

// endLookupAbsent ends a LOOKUP with NFS3ERR_NOENT. With believe it may cache the name as absent.
func (t *table) endLookupAbsent(q nameLookup, believe bool) (current bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.unuse(q.dirName, q.use)
	current = q.current()
	switch {
	case !current:
	case believe:
		t.bind(q.dir, q.name, nil, q.content)
	default:
		t.unbind(q.dir, q.name)
		t.vanished(q.dir, q.name)
	}
	return current
}

// abandonLookup ends a LOOKUP without a result.
func (t *table) abandonLookup(q nameLookup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unuse(q.dirName, q.use)
}
