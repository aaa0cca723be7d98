// The server's file systems without ACLs.

package fusefs

import (
	"sync"
	"time"
)

// withoutACLs has the file systems without ACLs for one object. For withoutTime the mount then
// sends no GETACL for their objects, because `ls -l` would cause one for each file. Linux's client
// sends none until unmount. This mount asks again after withoutTime, or after a successful SETACL,
// so enabled ACLs need no new mount.
type withoutACLs struct {
	mu    sync.Mutex
	until map[uint64]time.Time // by fsid; guarded by mu
}

// withoutTime is the pause between two ACL requests to a file system without ACLs.
const withoutTime = time.Minute

// add notes that a file system has no ACLs.
func (w *withoutACLs) add(fsid uint64, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.until == nil {
		w.until = make(map[uint64]time.Time)
	}
	w.until[fsid] = now.Add(withoutTime)
}

// has reports whether a file system is known to have no ACLs.
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
