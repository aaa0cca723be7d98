// Object locks: they keep an operation together with its attributes before and after.

package nfsserver

import (
	"bytes"
	"sync"
)

// A lockTable has a lock for each object being changed in one export. If the "before" attributes
// equal a client's cache, the client takes the difference to the "after" attributes as the only
// change (RFC 1813 §2.6, wcc_data). So no other call through this server may change the object in
// between.
//
// Each export has its own table, and no two objects share a lock: a call blocked on its disk delays
// only calls for the same object.
//
// Object locks are taken before any lock in an FS. Two object locks are taken in the order of their
// Refs.
type lockTable struct {
	mu   sync.Mutex // guards all below, and the locks' users
	held map[Ref]*objectLock
	free []*objectLock // for reuse
}

// An objectLock is in the table while a call holds the lock or waits for it.
type objectLock struct {
	mu    sync.Mutex
	ref   Ref // set while it is in the table
	users int
}

// spareLocks is the number of unused locks kept for reuse.
const spareLocks = 64

// lock locks an object and returns the lock. It allocates nothing in the steady state.
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

// pair locks two objects of the export, possibly the same object, and returns the function to
// unlock both.
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
