// System calls that a signal interrupts, and that are made again.

package osfs

import "golang.org/x/sys/unix"

// The kernel goes on by itself after most signals, but not where a FUSE program
// gives up a request because of one: the call returns EINTR. Go's runtime sends its
// threads signals all the time. A request that was given up has not been done, and
// if it was, to be asked again by the client would not be better than to ask again
// here. The number is bounded, as no more than a moment is to be spent on it; EINTR
// is JUKEBOX to the client.
const interruptTries = 100

// again makes a system call, again while it is interrupted.
func again(call func() error) (err error) {
	for range interruptTries {
		if err = call(); err != unix.EINTR {
			break
		}
	}
	return err
}

// again2 is again for a system call with a result.
func again2(call func() (int, error)) (n int, err error) {
	for range interruptTries {
		if n, err = call(); err != unix.EINTR {
			break
		}
	}
	return n, err
}

func fstat(fd int, st *unix.Stat_t) error {
	return again(func() error { return unix.Fstat(fd, st) })
}

func fstatfs(fd int, st *unix.Statfs_t) error {
	return again(func() error { return unix.Fstatfs(fd, st) })
}

// getdents reads entries of the open directory fd.
func getdents(fd int, buf []byte) (int, error) {
	return again2(func() (int, error) { return unix.Getdents(fd, buf) })
}
