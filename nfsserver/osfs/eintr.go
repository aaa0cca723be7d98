// System calls that a signal interrupts, and that are made again.

package osfs

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel goes on by itself after most signals, but not where a FUSE program
// gives up a request because of one: the call returns EINTR. Go's runtime sends its
// threads signals all the time. Such a request has not been done, so the call is made
// again, with signals held back: a slow program would else be interrupted for ever.
// What is still interrupted then is so by the program itself, and JUKEBOX to the client.
const interruptTries = 10

// again makes a system call, again while it is interrupted.
func again(call func() error) error {
	if err := call(); err != unix.EINTR {
		return err
	}
	return uninterrupted(call)
}

// uninterrupted is again with all signals to this thread blocked but faults; other
// threads take those of the process.
func uninterrupted(call func() error) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all := unix.Sigset_t{Val: [len(unix.Sigset_t{}.Val)]uint64{^uint64(faults)}}
	var old unix.Sigset_t
	if unix.PthreadSigmask(unix.SIG_BLOCK, &all, &old) == nil {
		defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	}
	for range interruptTries {
		if err = call(); err != unix.EINTR {
			break
		}
	}
	return err
}

// again2 is again for a system call with a result.
func again2(call func() (int, error)) (n int, err error) {
	err = again(func() error {
		n, err = call()
		return err
	})
	return n, err
}

// faults are the signals that tell of a fault of the thread's own, now.
const faults = 1<<(unix.SIGILL-1) | 1<<(unix.SIGTRAP-1) | 1<<(unix.SIGABRT-1) | 1<<(unix.SIGBUS-1) | 1<<(unix.SIGFPE-1) | 1<<(unix.SIGSEGV-1)

func fstat(fd int, st *unix.Stat_t) error {
	return again(func() error { return unix.Fstat(fd, st) })
}

// fstatQuick is fstat of a file system that Info.Quick holds of, without the scheduler's knowledge.
func fstatQuick(fd int, st *unix.Stat_t) error {
	_, _, errno := unix.RawSyscall(unix.SYS_FSTAT, uintptr(fd), uintptr(unsafe.Pointer(st)), 0)
	if errno == unix.EINTR {
		return fstat(fd, st)
	}
	return errnoError(errno)
}

func fstatfs(fd int, st *unix.Statfs_t) error {
	return again(func() error { return unix.Fstatfs(fd, st) })
}

// getdents reads entries of the open directory fd.
func getdents(fd int, buf []byte) (int, error) {
	return again2(func() (int, error) { return unix.Getdents(fd, buf) })
}
