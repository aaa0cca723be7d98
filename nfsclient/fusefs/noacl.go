// File systems of the server that have no ACLs.

package fusefs

import (
	"sync"
	"time"
)

// withoutACLs are file systems, of one object of which the server has said that it has no ACLs. It
// is not asked about others: `ls -l` would ask about each file. Linux's client asks no more for as
// long as the mount; here it is asked again after a while, and at once where somebody sets an ACL,
// so that nobody has to mount anew when they have been enabled.
type withoutACLs struct {
	mu    sync.Mutex
	until map[uint64]time.Time // by fsid; guarded by mu
}

const withoutTime = time.Minute

// add notes that a file system has none.
func (w *withoutACLs) add(fsid uint64, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.until == nil {
		w.until = make(map[uint64]time.Time)
	}
	w.until[fsid] = now.Add(withoutTime)
}

// has reports whether a file system is known to have none.
func (w *withoutACLs) has(fsid uint64, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return now.Before(w.until[fsid])
}

// remove notes that a file system has ACLs.
func (w *withoutACLs) remove(fsid uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.until, fsid)
}
