// Names that are being changed or asked for: an answer that was on its way meanwhile is not believed.
//
// The kernel asks for a name again without any lock, while it has the same name removed, made or replaced.
// The server's answers come in any order, so which of them is the name's state now they do not show.

package fusefs

import (
	"context"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A nameUse is calls under way that change one name or ask for it.
type nameUse struct {
	calls   int           // of both kinds; the last one to end removes this from the table
	changes int           // of those that change it
	version uint64        // counts starts and ends of changes
	changed chan struct{} // closed when there is no change any more; nil: there is none
}

// use is the nameUse of a place with one call more. The caller holds mu.
func (t *table) use(p place) *nameUse {
	u := t.uses[p]
	if u == nil {
		u = new(nameUse)
		t.uses[p] = u
	}
	u.calls++
	return u
}

// unuse counts a call out. The caller holds mu.
func (t *table) unuse(p place, u *nameUse) {
	if u.calls--; u.calls == 0 {
		delete(t.uses, p)
	}
}

// changeNames is the start of a change of names; what it returns is to be called at the end.
func (t *table) changeNames(places ...place) (end func()) {
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

func (t *table) endChanges(places []place) {
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

// awaitName returns when the name is not being changed.
func (t *table) awaitName(ctx context.Context, p place) error {
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

// A question is a LOOKUP under way.
type question struct {
	place
	use     *nameUse
	version uint64
	content uint64 // of the directory
}

// ask is the start of a LOOKUP; answer or dropped is to follow.
func (t *table) ask(p place) question {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.use(p)
	return question{p, u, u.version, p.dir.version()}
}

// current reports whether the name was not changed since the question was asked. The caller holds mu.
func (q *question) current() bool { return q.use.changes == 0 && q.use.version == q.version }

// answered is the end of a LOOKUP: enter for the handle that the server has found. Where the name was changed
// meanwhile what is known of it stays.
func (t *table) answered(q question, fh nfs3.FH) (n *node, current bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.unuse(q.place, q.use)
	n = t.hold(fh)
	if current = q.current(); current {
		t.bind(q.dir, q.name, n, q.content)
	}
	return n, current
}

// answeredNone is answered for a name that the server does not have. believe is whether it may be remembered.
func (t *table) answeredNone(q question, believe bool) (current bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.unuse(q.place, q.use)
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

// dropped is the end of a LOOKUP that has brought nothing.
func (t *table) dropped(q question) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unuse(q.place, q.use)
}
