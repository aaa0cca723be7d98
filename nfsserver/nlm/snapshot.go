// A snapshot of all locks and waiting requests, for display.

package nlm

import (
	"math"
	"net/netip"
	"time"
)

// A LockState is the progress of a lock request.
type LockState uint8

// The states of requests.
const (
	lockHeld    LockState = iota // the client holds the lock
	lockWaiting                  // blocked by other clients or local programs
	lockCalling                  // granted after waiting; the client has not confirmed yet
)

var lockStates = [...]string{lockHeld: "held", lockWaiting: "waiting", lockCalling: "calling"}

func (s LockState) String() string { return lockStates[s] }

// A LockInfo is one lock, one waiting request, or one share of a DOS client.
type LockInfo struct {
	State  LockState
	Addr   netip.Addr // of the client
	Host   string     // as it calls itself
	Svid   int32      // process on the client; -1 for a share
	Owner  string     // the client's opaque owner bytes
	Export string
	Tree   uint64 // with nfsserver.Trees: the number of the file's tree
	Path   string // of the file; "": unknown, as for files no other program can lock
	Ref    string // bytes identifying the file in its export

	Start     uint64
	End       uint64 // last byte, or EndOfFile
	Exclusive bool
	// a DOS share: Mode and Access apply instead of Start, End and Exclusive
	Share  bool
	Mode   uint32    // of a share: denied access, nlm4.ShareRead and nlm4.ShareWrite
	Access uint32    // of a share: its own access
	Since  time.Time // of the grant, or of the request; zero for a share
}

// EndOfFile is the End of a lock on all bytes after its Start.
const EndOfFile = math.MaxInt64

// A Snapshot holds all files' locks. Each file is copied at one moment, one file after another.
type Snapshot struct {
	Locks []LockInfo
	More  bool // the limit cut off further locks
	Busy  int  // files left out because a call was blocked in their file system
}

// snapshotWait bounds a Snapshot's total wait for files with running calls.
const snapshotWait = 200 * time.Millisecond

// Snapshot returns at most limit locks. It locks each file while copying, and skips files blocked
// in their file system.
func (s *Service) Snapshot(limit int) (snap Snapshot) {
	s.mu.Lock()
	files := make([]*file, 0, len(s.files))
	for _, f := range s.files {
		files = append(files, f)
	}
	s.mu.Unlock()
	end := time.Now().Add(snapshotWait)
	for _, f := range files {
		for !f.mu.TryLock() {
			if time.Now().After(end) {
				snap.Busy++
				f = nil
				break
			}
			time.Sleep(time.Millisecond)
		}
		if f == nil {
			continue
		}
		snap.add(f, limit)
		f.mu.Unlock()
	}
	return snap
}

// add copies the locks of f; f.mu is held.
func (s *Snapshot) add(f *file, limit int) {
	if f.empty() {
		return
	}
	ref := f.key.ref
	of := LockInfo{Export: f.key.export, Tree: f.key.tree, Ref: string(ref.Bytes())}
	if f.local != nil {
		of.Path = f.local.Path()
	}
	put := func(o *owner, l LockInfo) {
		if len(s.Locks) >= limit {
			s.More = true
			return
		}
		l.Addr, l.Host = o.host.key.addr, o.host.key.name
		l.Svid, l.Owner = o.key.svid, o.key.object
		s.Locks = append(s.Locks, l)
	}
	for _, h := range f.locks {
		l := of
		l.Start, l.End, l.Exclusive, l.Since = h.start, h.end, h.exclusive, h.since
		put(h.owner, l)
	}
	for _, w := range f.waiters {
		l := of
		l.Start, l.End, l.Exclusive, l.Since, l.State = w.start, w.end, w.exclusive, w.since, lockWaiting
		if w.granted {
			l.State = lockCalling
		}
		put(w.owner, l)
	}
	for _, sh := range f.shares {
		l := of
		l.Share, l.Mode, l.Access = true, sh.mode, sh.access
		put(sh.owner, l)
	}
}
