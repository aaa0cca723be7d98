// Contents: pread, pwrite and fsync on cached descriptors.

package osfs

import (
	"math"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// ReadAt reads until p is full or the file ends. What the caller may is asked
// before; the descriptor is the server's own, shared by all callers.
func (f *FS) ReadAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	n, fd, err := f.toRead(&c, &r)
	if err != nil {
		return 0, err
	}
	defer f.cache.release(n)
	if off > math.MaxInt64-uint64(len(p)) {
		return 0, nil // no file is that long
	}
	done := 0
	for done < len(p) {
		// Short reads are for signals and ends: the server tells its client the end of the file by
		// a short one, so it must not tell one that is none.
		k, err := f.pread(n, fd, p[done:], int64(off)+int64(done))
		if err != nil {
			return done, err
		}
		if k == 0 {
			break
		}
		done += k
	}
	return done, nil
}

// toRead returns the node of r, with a reference, and its descriptor, if c may read it.
func (f *FS) toRead(c *nfsserver.Cred, r *nfsserver.Ref) (n *node, fd int, err error) {
	if n, err = f.acquire(r); err != nil {
		return nil, -1, err
	}
	if err = n.isFile(); err == nil {
		err = f.mayRead(n, c)
	}
	if err == nil {
		fd, err = f.reader(n)
	}
	if err != nil {
		f.cache.release(n)
		return nil, -1, err
	}
	return n, fd, nil
}

// isFile: only regular files have content.
func (n *node) isFile() error {
	switch n.typ {
	case nfsserver.TypeReg:
		return nil
	case nfsserver.TypeDir:
		return unix.EISDIR
	}
	return unix.EINVAL
}

// mostAtOnce is how much one system call writes. Where each is on the disk before it returns, as on
// what is mounted with "sync", pieces would be as many waits.
func (f *FS) mostAtOnce() int {
	var st unix.Statfs_t
	if !f.info.Quick || fstatfs(f.tree.root, &st) != nil || st.Flags&unix.ST_SYNCHRONOUS != 0 {
		return math.MaxInt
	}
	return writePiece
}

// WriteAt writes until p is empty or nothing more goes. It does so as the caller,
// as far as that makes a difference: quotas hold, the blocks reserved for root are
// not touched, and set-id bits go.
func (f *FS) WriteAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	n, err := f.acquire(&r)
	if err != nil {
		return 0, err
	}
	defer f.cache.release(n)
	if err := n.isFile(); err != nil {
		return 0, err
	}
	err = f.mayWrite(n, &c)
	if len(p) == 0 && err == unix.ETXTBSY {
		return 0, nil // the kernel asks for permission first
	}
	if len(p) == 0 || err != nil {
		return 0, err
	}
	fd, err := f.writer(n)
	if err != nil {
		return 0, err
	}
	if off > math.MaxInt64 || uint64(len(p)) > math.MaxInt64-off {
		return 0, unix.EFBIG
	}
	a, err := f.actWriter(n, &c)
	if err != nil {
		return 0, err
	}
	defer a.End()
	done := 0
	defer n.dirty.Store(true) // after the data, or a Sync that began before it would clear it
	for done < len(p) {
		piece := p[done : done+min(len(p)-done, f.atOnce)]
		k, err := eintr.RetryN(func() (int, error) { return unix.Pwrite(fd, piece, int64(off)+int64(done)) })
		// What has been written counts: the client learns how much, writes the rest, and gets the
		// error then.
		if err != nil && done == 0 {
			return 0, err
		}
		if err != nil || k == 0 {
			break
		}
		done += k
	}
	return done, nil
}

// Sync is fdatasync or fsync. The kernel keeps the error of a failed write-back
// until one of our descriptors has been told. Objects that cannot be opened for it
// are synced with their whole file system.
func (f *FS) Sync(r nfsserver.Ref, dataOnly bool) error {
	n, err := f.acquire(&r)
	if err != nil {
		return err
	}
	defer f.cache.release(n)
	fd, err := f.syncer(n)
	if err != nil {
		return err
	}
	// Before the sync and not after: a WRITE that comes in between makes it dirty again, and is
	// covered by the next.
	n.dirty.Store(false)
	switch {
	case fd < 0:
		err = f.syncMount(n)
	case dataOnly:
		err = eintr.Retry(func() error { return fdatasync(fd) })
	default:
		err = eintr.Retry(func() error { return fsync(fd) })
	}
	f.synced(n)
	if lost := f.takeLost(&r); err == nil {
		err = lost
	}
	return err
}

// syncer is a descriptor to sync n by, one that is open if there is any; -1: n is
// neither file nor directory, or this process is not allowed to open it. What was changed
// could be changed all the same, so that is no failure: a mode without the
// owner's bits, a directory in which names are made and not listed, or no descriptor
// left.
func (f *FS) syncer(n *node) (int, error) {
	if n.typ != nfsserver.TypeReg && n.typ != nfsserver.TypeDir {
		return -1, nil
	}
	for _, slot := range [...]*atomic.Int32{&n.write, &n.read} {
		if fd := slot.Load(); fd >= 0 {
			return int(fd), nil
		}
	}
	fd, err := f.open(n, &n.read, unix.O_RDONLY, false)
	if err == unix.EACCES && n.typ == nfsserver.TypeReg {
		fd, err = f.open(n, &n.write, unix.O_WRONLY, false)
	}
	switch err {
	case unix.EACCES, unix.EPERM, unix.EROFS, unix.ETXTBSY, unix.EMFILE, unix.ENFILE:
		return -1, nil
	}
	return fd, err
}

// syncMount syncs the file system of n.
func (f *FS) syncMount(n *node) error {
	m, err := f.mountByID(n.key.mount)
	if err != nil {
		return err
	}
	defer f.mounts.release(m)
	return eintr.Retry(func() error { return syncfs(m.fd) })
}

// The calls by which the kernel is asked for stable storage. No result shows that
// they were made, so a test listens here.
var (
	fsync     = unix.Fsync
	fdatasync = unix.Fdatasync
	syncfs    = unix.Syncfs
)
