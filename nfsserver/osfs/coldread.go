// Reads that wait for a disk: through io_uring, where there is one, so that they take no thread.

package osfs

import (
	"unsafe"

	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// pread reads as pread(2) does, from the descriptor fd of n. What is not in the page cache, of a
// disk of this machine, is waited for without a thread.
func (f *FS) pread(n *node, fd int, p []byte, off int64) (int, error) {
	if f.nowait && len(p) > 0 && len(p) <= coldMax {
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

// preadCold reads through the ring. ok is false if that is not possible: there is no ring, it is
// full, its kernel (5.5) has no such operation, or the read fails for a reason of the file, which
// pread(2) then reports.
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

// A daxState is whether a file is in memory that is its disk, and has no pages in the page cache
// (ext4, XFS): a read copies from there and waits for nothing, but cachestat(2) finds nothing of
// it. It is asked for once in the life of a node: the kernel changes it while nobody has the inode.
type daxState = int32

const (
	daxUnknown daxState = iota
	daxNot
	daxIs
)

// isDAX reports whether the file of n, which fd is open on, is so.
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

// statx is a variable for tests.
var statx = unix.Statx

// preadCached is preadNow, but asks before that whether the kernel has the pages, where that can be
// known: else it would begin to read them from the disk, one read at a time, and the ring, which is
// given several at once, would begin with all of it again.
func (f *FS) preadCached(fd int, p []byte, off int64) (int, unix.Errno) {
	if f.quickReads {
		if all, errno := cached(fd, uint64(off), len(p)); errno == 0 && !all {
			return 0, unix.EAGAIN
		}
	}
	return preadNow(fd, p, off)
}

// preadNow is preadv2(2) with RWF_NOWAIT: it waits for no data of the file. It can wait, though:
// where pages are missing the kernel begins to read ahead, for which it may need the file's map
// from the disk, or room in the disk's queue. So the scheduler is told of it: else this processor,
// and with the next garbage collection all others, would stand still for that long.
func preadNow(fd int, p []byte, off int64) (int, unix.Errno) {
	v := unix.Iovec{Base: &p[0], Len: uint64(len(p))}
	n, _, errno := unix.Syscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&v)), 1, uintptr(off), uintptr(uint64(off)>>32), unix.RWF_NOWAIT)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// readsWithoutWaiting reports whether files can be read with RWF_NOWAIT: of tmpfs they cannot.
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
