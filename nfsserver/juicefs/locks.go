// Locks against other clients of the volume: JuiceFS's POSIX locks.

package juicefs

import (
	"math"
	"sync/atomic"
	"syscall"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// lockOwner is the owner of the server's locks within its session. One owner is enough, because the
// server's lock manager resolves conflicts between its clients before it calls here.
const lockOwner = 1

// fileLocks are the server's locks on one file.
type fileLocks struct {
	m     meta.Meta
	ino   meta.Ino
	grace *graceFile // locks of the previous process; nil: none
	open  *atomic.Int64
}

// OpenLocks releases leftover locks of the same session, except those that clients may reclaim.
func (f *FS) OpenLocks(r nfsserver.Ref) (nfsserver.FileLocks, error) {
	n, err := f.loadFile(&r)
	if err != nil {
		return nil, err
	}
	if f.readOnly {
		return noLocks{}, nil
	}
	l := &fileLocks{f.m, n.ino, f.grace.files[n.ino], &f.locked}
	if err := l.Set(0, math.MaxInt64, nfsserver.Unlocked); err != nil {
		return nil, err
	}
	f.locked.Add(1)
	return l, nil
}

// EndGrace releases the previous process's locks that no client has reclaimed. Until this call they
// are held, regardless of the lock manager's grace period and the time spent opening.
func (f *FS) EndGrace() { f.grace.endGrace() }

// lockTypes are JuiceFS's lock types, as in fcntl(2).
var lockTypes = [...]uint32{nfsserver.Unlocked: syscall.F_UNLCK, nfsserver.Shared: syscall.F_RDLCK, nfsserver.Exclusive: syscall.F_WRLCK}

// Set locks or releases bytes. It does not wait for another client.
func (l *fileLocks) Set(start, end uint64, t nfsserver.LockType) error {
	if l.grace != nil {
		return l.grace.set(span{start, end}, lockTypes[t])
	}
	return l.lock(span{start, end}, lockTypes[t])
}

func (l *fileLocks) lock(s span, kind uint32) error {
	return failed(l.m.Setlk(system, l.ino, lockOwner, false, kind, s.start, s.end, 0))
}

// Test returns another client's conflicting lock.
func (l *fileLocks) Test(start, end uint64, t nfsserver.LockType) (at, last uint64, other nfsserver.LockType, err error) {
	k, pid := lockTypes[t], uint32(0)
	if no := l.m.Getlk(system, l.ino, lockOwner, &k, &start, &end, &pid); no != 0 {
		return 0, 0, nfsserver.Unlocked, failed(no)
	}
	switch k {
	case syscall.F_RDLCK:
		return start, end, nfsserver.Shared, nil
	case syscall.F_WRLCK:
		return start, end, nfsserver.Exclusive, nil
	}
	return 0, 0, nfsserver.Unlocked, nil
}

// Close releases all locks.
func (l *fileLocks) Close() error {
	l.open.Add(-1)
	return l.Set(0, math.MaxInt64, nfsserver.Unlocked)
}

// noLocks are the locks of a server without a session in the volume, which cannot hold locks there:
// only its own clients exclude one another.
type noLocks struct{}

func (noLocks) Set(uint64, uint64, nfsserver.LockType) error { return nil }

func (noLocks) Test(uint64, uint64, nfsserver.LockType) (uint64, uint64, nfsserver.LockType, error) {
	return 0, 0, nfsserver.Unlocked, nil
}

func (noLocks) Close() error { return nil }
