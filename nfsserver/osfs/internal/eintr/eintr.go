// Package eintr repeats system calls that a signal interrupts.
package eintr

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// The kernel itself restarts a call after most signals. But where a FUSE program gives up a request
// because of a signal, the call returns EINTR. Go's runtime sends its threads signals all the time.
// An interrupted request has not been done, so the call is repeated, with signals blocked:
// otherwise a slow program would be interrupted for ever.

// tries is the number of calls with signals blocked. An EINTR after ten calls is the FUSE program's
// own answer, and the client gets JUKEBOX.
const tries = 10

// faults are the signals of a fault in the thread itself. Such signals cannot wait.
const faults = 1<<(unix.SIGILL-1) | 1<<(unix.SIGTRAP-1) | 1<<(unix.SIGABRT-1) | 1<<(unix.SIGBUS-1) | 1<<(unix.SIGFPE-1) | 1<<(unix.SIGSEGV-1)

// Retry makes a system call, and repeats the call while signals interrupt it.
func Retry(call func() error) error {
	if err := call(); err != unix.EINTR {
		return err
	}
	return uninterrupted(call)
}

// RetryN is Retry for a system call with a result.
func RetryN(call func() (int, error)) (n int, err error) {
	err = Retry(func() error {
		n, err = call()
		return err
	})
	return n, err
}

// uninterrupted repeats a call with all signals to this thread blocked, except faults. Other
// threads take the signals to the process.
func uninterrupted(call func() error) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all := unix.Sigset_t{Val: [len(unix.Sigset_t{}.Val)]uint64{^uint64(faults)}}
	var old unix.Sigset_t
	if unix.PthreadSigmask(unix.SIG_BLOCK, &all, &old) == nil {
		defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	}
	for range tries {
		if err = call(); err != unix.EINTR {
			break
		}
	}
	return err
}
