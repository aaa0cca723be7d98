// Locks that keep an operation and its attributes before and after together.

package nfsserver

import "sync"

// A lockTable has a lock for each object, shared by some that hash alike. A
// client that sees the "before" attributes equal to those in its cache takes
// the "after" ones to be all that changed (RFC 1813 §2.6, wcc_data), so nothing
// that comes through this server may change the object in between.
//
// Locks are taken before any in an FS, two of them in the order of the table.
type lockTable [256]sync.Mutex

func (t *lockTable) of(r *Ref) *sync.Mutex { return &t[r.Hash()%uint32(len(t))] }

// pair locks two objects.
func (t *lockTable) pair(a, b *Ref) (unlock func()) {
	i, j := a.Hash()%uint32(len(t)), b.Hash()%uint32(len(t))
	if i > j {
		i, j = j, i
	}
	t[i].Lock()
	if i == j {
		return t[i].Unlock
	}
	t[j].Lock()
	return func() {
		t[j].Unlock()
		t[i].Unlock()
	}
}
