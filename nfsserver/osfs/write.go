// Writes and syncs contents by cached descriptors.

package osfs

import (
	"math"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// maxWrite returns the largest number of bytes for one write(2). On a mount with "sync" each call
// waits for the disk, so small pieces would wait more often.
func (f *FS) maxWrite() int {
	var st unix.Statfs_t
	if !f.info.Quick || fstatfs(f.tree.root, &st) != nil || st.Flags&unix.ST_SYNCHRONOUS != 0 {
		return math.MaxInt
	}
	return writePiece
}

// WriteAt writes until p is empty or a write fails. It takes the caller's identity where that
// matters: quotas hold, the blocks reserved for root stay free, and set-id bits are cleared.
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
		return 0, nil // ETXTBSY comes after the permission check
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
	defer n.dirty.Store(true) // after the write: a Sync begun earlier would clear it
	for done < len(p) {
		piece := p[done : done+min(len(p)-done, f.maxWriteSize)]
		k, err := eintr.RetryN(func() (int, error) { return unix.Pwrite(fd, piece, int64(off)+int64(done)) })
		// Bytes written before an error count: the client learns their number, writes the remaining
		// bytes, and gets the error then.
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

// Sync calls fdatasync or fsync. The kernel keeps a failed write-back's error until one of the
// server's descriptors has returned it. For objects that cannot be opened, Sync syncs their whole
// file system.
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
	// Before the sync: a concurrent WRITE sets dirty again, and the next sync covers the WRITE.
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

// syncer returns a descriptor of n for a sync, an open one if possible. It returns -1 if n is
// neither file nor directory, or if this process cannot open n. The latter is no failure, because
// such objects can still have been changed: a file whose mode lacks the owner's bits, a directory
// that cannot be listed, or any object when no descriptor is free.
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

// syncMount syncs n's file system.
func (f *FS) syncMount(n *node) error {
	m, err := f.mountByID(n.key.mount)
	if err != nil {
		return err
	}
	defer f.mounts.release(m)
	return eintr.Retry(func() error { return syncfs(m.fd) })
}

// The sync calls. Tests replace them, because no result shows that a sync was made.
var (
	fsync     = unix.Fsync
	fdatasync = unix.Fdatasync
	syncfs    = unix.Syncfs
)
