// System calls of several files, repeated while a signal interrupts them.

package osfs

import (
	"unsafe"

	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// errnoError returns a nil error for 0.
func errnoError(errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

func fstat(fd int, st *unix.Stat_t) error {
	return eintr.Retry(func() error { return unix.Fstat(fd, st) })
}

// fstatQuick calls fstat on a file system with Info.Quick. The call waits for nothing, so
// fstatQuick does not notify the scheduler.
func fstatQuick(fd int, st *unix.Stat_t) error {
	_, _, errno := unix.RawSyscall(unix.SYS_FSTAT, uintptr(fd), uintptr(unsafe.Pointer(st)), 0)
	if errno == unix.EINTR {
		return fstat(fd, st)
	}
	return errnoError(errno)
}

func fstatfs(fd int, st *unix.Statfs_t) error {
	return eintr.Retry(func() error { return unix.Fstatfs(fd, st) })
}

// getdents reads entries from the open directory fd.
func getdents(fd int, buf []byte) (int, error) {
	return eintr.RetryN(func() (int, error) { return unix.Getdents(fd, buf) })
}
