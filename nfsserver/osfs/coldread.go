// Reads that wait for a disk: through io_uring if the kernel has it, to occupy no thread.

package osfs

import (
	"unsafe"

	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// pread is pread(2) of fd, a descriptor of n. A read from a local disk that misses the page cache
// waits in the ring, which occupies no thread.
func (f *FS) pread(n *node, fd int, p []byte, off int64) (int, error) {
	if f.nowait && len(p) > 0 && len(p) <= maxColdRead {
		k, errno := f.preadCached(fd, p, off)
		switch {
		case errno == 0 && k > 0:
			return k, nil
		case errno == unix.EAGAIN && !n.isDAX(fd):
			if k, ok := f.preadCold(fd, p, off); ok {
				return k, nil
			}
		}
	}
	return eintr.RetryN(func() (int, error) { return unix.Pread(fd, p, off) })
}

// preadCold reads through the ring. ok is false if there is no ring, the ring is full, the kernel
// (5.5) has rings without this operation, or reading the file fails. In the last case the caller's
// pread(2) reports the error.
func (f *FS) preadCold(fd int, p []byte, off int64) (n int, ok bool) {
	r := f.cold.take()
	if r == nil {
		f.decisions.coldRead.Pass()
		return 0, false
	}
	n, err := r.ReadAt(fd, p, off)
	f.cold.put()
	f.decisions.coldRead.Note(err == nil)
	return n, err == nil
}

// A daxState records whether a file lies in memory used as a disk (DAX; ext4, XFS). Such a file has
// no pages in the page cache, so cachestat(2) finds none. But a read copies from the memory and
// waits for nothing. Each node checks once, because the state changes only while no process has the
// inode open.
type daxState = int32

const (
	daxUnknown daxState = iota
	daxNot
	daxIs
)

// isDAX reports whether n's file is DAX; fd is open on the file.
func (n *node) isDAX(fd int) bool {
	is := n.dax.Load()
	if is == daxUnknown {
		is = daxNot
		var sx unix.Statx_t
		if statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, 0, &sx) == nil && sx.Attributes&unix.STATX_ATTR_DAX != 0 {
			is = daxIs
		}
		n.dax.Store(is)
	}
	return is == daxIs
}

// statx is unix.Statx; tests replace it.
var statx = unix.Statx

// preadCached is preadNow of cached pages only, where cachestat(2) is available. preadNow of
// missing pages would start to read them from the disk, one read at a time. The ring, which takes
// several reads at once, would then read the same pages again.
func (f *FS) preadCached(fd int, p []byte, off int64) (int, unix.Errno) {
	if f.quickReads {
		if all, errno := cached(fd, uint64(off), len(p)); errno == 0 && !all {
			return 0, unix.EAGAIN
		}
	}
	return preadNow(fd, p, off)
}

// preadNow is preadv2(2) with RWF_NOWAIT, which waits for no file data. The call may still block:
// for missing pages the kernel starts readahead, which may wait for the file's block map or for
// room in the disk's queue. So preadNow notifies the scheduler. Otherwise a blocked call would stop
// this processor, and at the next garbage collection all others.
func preadNow(fd int, p []byte, off int64) (int, unix.Errno) {
	v := unix.Iovec{Base: &p[0], Len: uint64(len(p))}
	n, _, errno := unix.Syscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&v)), 1, uintptr(off), uintptr(uint64(off)>>32), unix.RWF_NOWAIT)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// readsWithoutWaiting reports whether the file system supports RWF_NOWAIT. tmpfs does not.
func (f *FS) readsWithoutWaiting() bool {
	if !f.top.kernel {
		return false
	}
	switch f.top.magic {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
		return true
	}
	return false
}
