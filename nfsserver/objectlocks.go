// Locks that keep an operation and its attributes before and after together.

package nfsserver

import (
	"bytes"
	"sync"
)

// A lockTable has a lock for each object of one export that a call is changing. A
// client that sees the "before" attributes equal to those in its cache takes
// the "after" ones to be all that changed (RFC 1813 §2.6, wcc_data), so nothing
// that comes through this server may change the object in between.
//
// Each export has a table of its own, and no two objects share a lock: a call that
// its disk does not answer keeps waiting only those that want the same object.
//
// Locks are taken before any in an FS, two of them in the order of the Refs.
type lockTable struct {
	mu   sync.Mutex // guards all below, and users of the locks
	held map[Ref]*objectLock
	free []*objectLock // some to use again
}

// An objectLock is in the table while somebody holds it or waits for it.
type objectLock struct {
	mu    sync.Mutex
	ref   Ref // set while it is in the table
	users int
}

// spareLocks is how many locks that nobody uses are kept.
const spareLocks = 64

// lock locks an object. It allocates nothing in the steady state.
func (t *lockTable) lock(r *Ref) *objectLock {
	t.mu.Lock()
	l := t.held[*r]
	if l == nil {
		if n := len(t.free); n > 0 {
			l, t.free = t.free[n-1], t.free[:n-1]
		} else {
			l = new(objectLock)
		}
		if t.held == nil {
			t.held = map[Ref]*objectLock{}
		}
		l.ref = *r
		t.held[*r] = l
	}
	l.users++
	t.mu.Unlock()
	l.mu.Lock()
	return l
}

func (t *lockTable) unlock(l *objectLock) {
	l.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	delete(t.held, l.ref)
	if len(t.free) < spareLocks {
		t.free = append(t.free, l)
	}
}

// pair locks two objects of the export, which may be the same.
func (t *lockTable) pair(a, b *Ref) (unlock func()) {
	order := bytes.Compare(a.Bytes(), b.Bytes())
	if order > 0 {
		a, b = b, a
	}
	first := t.lock(a)
	if order == 0 {
		return func() { t.unlock(first) }
	}
	second := t.lock(b)
	return func() {
		t.unlock(second)
		t.unlock(first)
	}
}
