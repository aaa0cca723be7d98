// Which locks there are at one moment, and who waits for some: for those who want to show it.

package nlm

import (
	"math"
	"net/netip"
	"time"
)

// A LockState is how far a request for a lock is.
type LockState uint8

// The states of requests.
const (
	lockHeld    LockState = iota // by the client
	lockWaiting                  // for others, or for programs of this machine
	lockCalling                  // has the lock, and its client, which has waited for it, is being told
)

var lockStates = [...]string{lockHeld: "held", lockWaiting: "waiting", lockCalling: "calling"}

func (s LockState) String() string { return lockStates[s] }

// A LockInfo is one lock, one request that waits for one, or one share of a DOS client.
type LockInfo struct {
	State  LockState
	Addr   netip.Addr // of the client
	Host   string     // the name that it gives itself
	Svid   int32      // of the process there; of a share -1
	Owner  string     // bytes by which the client tells its owners apart
	Export string
	Path   string // of the file; "": not known, as for files that no other program can lock
	Ref    string // bytes that name the file in its export

	Start     uint64
	End       uint64 // the last byte; EndOfFile
	Exclusive bool
	Share     bool      // what is denied to other opens, in place of Start, End and Exclusive: Mode of Access
	Mode      uint32    // of a share: nlm4.ShareRead and nlm4.ShareWrite that are denied
	Access    uint32    // of a share: those that are wanted
	Since     time.Time // when it was given, or asked for; zero for a share
}

// EndOfFile is the End of a lock of all bytes after its Start.
const EndOfFile = math.MaxInt64

// A Snapshot is the locks of one moment for each file, the files looked at one after another.
type Snapshot struct {
	Locks []LockInfo
	More  bool // there are others, beyond the limit
	Busy  int  // files that were left out, as their file system kept a call waiting
}

// snapshotWait is how long a Snapshot waits for files on which calls are running, all together.
const snapshotWait = 200 * time.Millisecond

// Snapshot returns at most limit locks. A file is locked while its own are copied, and none is
// waited for whose file system does not answer.
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

// add copies the locks of a file, which is locked.
func (s *Snapshot) add(f *file, limit int) {
	if f.empty() {
		return
	}
	ref := f.key.ref
	of := LockInfo{Export: f.key.export, Ref: string(ref.Bytes())}
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
