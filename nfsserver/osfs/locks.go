// Locks on files against other programs: open file description locks of fcntl(2).

package osfs

import (
	"math"
	"os"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

var (
	_ nfsserver.Locker     = (*FS)(nil)
	_ nfsserver.LocalLocks = (*fileLock)(nil)
)

// A fileLock holds the server's locks on one file. The locks need a separate open file description,
// because they end with its last descriptor, and nodes close their descriptors.
type fileLock struct {
	tree     *tree // of the FS, which stays open
	fd       int
	readOnly bool // the kernel requires a writable description for exclusive locks
}

// OpenLocks opens the file once more, as the server, because the caller's permission has been
// checked. The descriptor stays open while the file has locks.
func (f *FS) OpenLocks(r nfsserver.Ref) (nfsserver.FileLocks, error) {
	n, err := f.acquire(&r)
	if err != nil {
		return nil, err
	}
	defer f.cache.release(n)
	if err := n.isFile(); err != nil {
		return nil, err
	}
	l := &fileLock{tree: &f.tree}
	if l.fd, err = f.openToLock(n, unix.O_RDWR); err == nil {
		return l, nil
	}
	l.readOnly = true
	if l.fd, err = f.openToLock(n, unix.O_RDONLY); err != nil {
		return nil, err
	}
	return l, nil
}

// EndGrace does nothing, because an earlier process's locks ended with that process.
func (f *FS) EndGrace() {}

// openToLock opens n's file, even if this process owns it and its mode forbids the open.
func (f *FS) openToLock(n *node, flags int) (int, error) {
	reopen := func() (int, error) { return openHere(unix.AT_FDCWD, procPath(n.fd()), flags|unix.O_NONBLOCK) }
	fd, err := reopen()
	if err == unix.EACCES {
		n.mu.Lock()
		defer n.mu.Unlock()
		return f.openOwn(n, reopen)
	}
	return fd, err
}

// flockTypes are the fcntl(2) lock types.
var flockTypes = [...]int16{nfsserver.Unlocked: unix.F_UNLCK, nfsserver.Shared: unix.F_RDLCK, nfsserver.Exclusive: unix.F_WRLCK}

// flockRange returns a range for fcntl(2), where length 0 means "to the end".
func flockRange(start, end uint64, t nfsserver.LockType) unix.Flock_t {
	l := unix.Flock_t{Type: flockTypes[t], Start: int64(start)}
	if end < math.MaxInt64 {
		l.Len = int64(end-start) + 1
	}
	return l
}

// Set locks or releases a byte range. It never waits for another program's lock.
func (l *fileLock) Set(start, end uint64, t nfsserver.LockType) error {
	if t == nfsserver.Exclusive && l.readOnly {
		return unix.EROFS
	}
	k := flockRange(start, end, t)
	err := eintr.Retry(func() error { return unix.FcntlFlock(uintptr(l.fd), unix.F_OFD_SETLK, &k) })
	if err == unix.EACCES { // fcntl(2) may return EACCES for EAGAIN
		err = unix.EAGAIN
	}
	return err
}

// Test returns the range and type of another program's conflicting lock.
func (l *fileLock) Test(start, end uint64, t nfsserver.LockType) (at, last uint64, other nfsserver.LockType, err error) {
	k := flockRange(start, end, t)
	if err := eintr.Retry(func() error { return unix.FcntlFlock(uintptr(l.fd), unix.F_OFD_GETLK, &k) }); err != nil {
		return 0, 0, nfsserver.Unlocked, err
	}
	switch k.Type {
	case unix.F_UNLCK:
		return 0, 0, nfsserver.Unlocked, nil
	case unix.F_RDLCK:
		other = nfsserver.Shared
	default:
		other = nfsserver.Exclusive
	}
	at, last = uint64(k.Start), math.MaxInt64
	if k.Len > 0 {
		last = at + uint64(k.Len) - 1
	}
	return at, last, other, nil
}

// Path returns the file's name at its open, which the kernel updates after renames. After a removal
// it ends in " (deleted)".
func (l *fileLock) Path() string {
	name, err := os.Readlink(procPath(l.fd))
	if err != nil || !strings.HasPrefix(name, "/") {
		return ""
	}
	if l.tree.copied < 0 {
		return name
	}
	// The root of the private mount is the exported directory.
	dir, err := os.Readlink(procPath(l.tree.named))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(dir, "/") + name
}

// Inode returns the device and inode number. Lists of locks have them only if the file system gives
// files its own device number; btrfs does not.
func (l *fileLock) Inode() (major, minor uint32, number uint64, err error) {
	var st unix.Stat_t
	if err := eintr.Retry(func() error { return unix.Fstat(l.fd, &st) }); err != nil {
		return 0, 0, 0, err
	}
	return unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino, nil
}

// Close releases all locks.
func (l *fileLock) Close() error { return unix.Close(l.fd) }
