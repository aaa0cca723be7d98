// The device: reading, writing, and waiting for requests, by system calls on one descriptor.

package fuseloop

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A device is the descriptor of a FUSE connection, with O_NONBLOCK, in Go's network poller.
type device struct {
	// set once
	file *os.File
	conn syscall.RawConn
	fd   int // for who is counted in flight: the descriptor is closed after all of these have ended
}

// openDevice takes fd over, with an error too.
func openDevice(fd int) (*device, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	d := &device{file: os.NewFile(uintptr(fd), "/dev/fuse"), fd: fd}
	var err error
	if d.conn, err = d.file.SyscallConn(); err != nil {
		d.file.Close()
		return nil, err
	}
	return d, nil
}

// The runtime's scheduler is not told of reads and of writes of replies, for they wait for nobody: a thread of it that watches who is in
// system calls would wake for each request, and take a share of the processors that is larger than the calls'.

// read is one read(2), which brings one request or an error.
func read(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

// write is one write(2) of a whole message. The device takes all of it or nothing.
func (d *device) write(p []byte) syscall.Errno {
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(d.fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		if errno != unix.EINTR {
			return errno
		}
	}
}

// writev is write for a message in pieces.
func (d *device) writev(v []unix.Iovec) syscall.Errno {
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_WRITEV, uintptr(d.fd), uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v)))
		if errno != unix.EINTR {
			return errno
		}
	}
}

// notice is writev for who is not counted in flight: the descriptor cannot be closed, and its number be another
// file's, while it is under way. It can wait, for pages and for locks of the kernel's.
func (d *device) notice(v []unix.Iovec) syscall.Errno {
	errno := unix.EBADF
	_ = d.conn.Control(func(fd uintptr) { // its error: the descriptor is closed
		for errno = unix.EINTR; errno == unix.EINTR; {
			_, _, errno = unix.Syscall(unix.SYS_WRITEV, fd, uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v)))
		}
	})
	return errno
}

// yield lets others have this processor, if any wait for it.
func yield() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// piece appends p to a message.
func piece(v []unix.Iovec, p []byte) []unix.Iovec {
	if len(p) == 0 {
		return v
	}
	v = append(v, unix.Iovec{Base: unsafe.SliceData(p)})
	v[len(v)-1].SetLen(len(p))
	return v
}
