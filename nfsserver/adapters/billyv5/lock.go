// Locks between the open files in one file system.

package billyv5

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// locks has one lock for each file that is locked or awaited.
type locks struct {
	mu   sync.Mutex // guards the rest
	free *sync.Cond // a lock was released
	held map[nfs3.FH]bool
}

func newLocks() *locks {
	l := &locks{held: make(map[nfs3.FH]bool)}
	l.free = sync.NewCond(&l.mu)
	return l
}

// lock waits until no other file holds the lock on fh.
func (l *locks) lock(fh nfs3.FH) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.held[fh] {
		l.free.Wait()
	}
	l.held[fh] = true
}

func (l *locks) unlock(fh nfs3.FH) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, fh)
	l.free.Broadcast()
}
