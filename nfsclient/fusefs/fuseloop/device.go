// The device: reading, writing, and waiting for requests, by system calls on one descriptor.

package fuseloop

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A device is a FUSE connection's descriptor, with O_NONBLOCK, and an epoll instance for waiting.
//
// Go's network poller has an epoll instance with the device as its only member, not the device
// itself. Otherwise each request would wake the poller's thread, even if the reader finds it by
// spinning. The member is armed (EPOLLONESHOT) while the reader is parked.
type device struct {
	// set once
	file *os.File // the epoll instance
	conn syscall.RawConn
	fd   int // the connection; its users are counted in flight or hold conn, and end before close
	wait func(ep uintptr) bool

	// owned by the reader
	armed bool
	try   func() bool // await's argument
}

// openDevice makes a device that owns fd. After an error fd is closed.
func openDevice(fd int) (*device, error) {
	d := &device{fd: fd}
	d.wait = func(ep uintptr) bool {
		d.disarm(int(ep))
		return d.try() || !d.arm(int(ep))
	}
	if err := d.open(); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return d, nil
}

func (d *device) open() error {
	if err := unix.SetNonblock(d.fd, true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err = unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, d.fd, &unix.EpollEvent{Events: unix.EPOLLONESHOT}); err == nil {
		err = unix.SetNonblock(ep, true)
	}
	if err != nil {
		unix.Close(ep)
		return os.NewSyscallError("epoll_ctl", err)
	}
	d.file = os.NewFile(uintptr(ep), "/dev/fuse")
	if d.conn, err = d.file.SyscallConn(); err != nil {
		d.file.Close()
	}
	return err
}

// close closes the descriptor. Call it once, when only notices still use the descriptor.
func (d *device) close() {
	d.file.Close() // waits for the notices
	unix.Close(d.fd)
}

// connected reports whether the kernel still has the mount.
func (d *device) connected() (yes bool) {
	_ = d.conn.Control(func(uintptr) { // its error means the descriptor is closed
		p := [1]unix.PollFd{{Fd: int32(d.fd)}} // poll always reports errors and the end
		n, err := unix.Poll(p[:], 0)
		yes = err != nil || n == 0
	})
	return yes
}

// await calls try until it returns true: first at once, then whenever the device is readable.
func (d *device) await(try func() bool) error {
	d.try = try
	return d.conn.Read(d.wait)
}

// arm makes the poller report present and new input. It returns false if arming failed: try again.
func (d *device) arm(ep int) bool {
	d.armed = unix.EpollCtl(ep, unix.EPOLL_CTL_MOD, d.fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT}) == nil
	return d.armed
}

// disarm consumes the event, which disarms the member.
func (d *device) disarm(ep int) {
	if !d.armed {
		return
	}
	d.armed = false
	var ev [1]unix.EpollEvent
	unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(ep), uintptr(unsafe.Pointer(&ev)), 1, 0, 0, 0)
}

// read and write bypass the runtime's scheduler, because they do not block. Otherwise the runtime's
// monitor thread would wake for each request to check system calls, and use more CPU than they do.

// read calls read(2) once, for one request or an error.
func read(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

// write calls write(2) for a whole message. The device accepts all of it or nothing.
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

// notice is writev for callers that are not counted in flight. During the call the descriptor
// cannot be closed and its number reused. notice may block on pages and kernel locks.
func (d *device) notice(v []unix.Iovec) syscall.Errno {
	errno := unix.EBADF
	_ = d.conn.Control(func(uintptr) { // its error means the descriptor is closed
		for errno = unix.EINTR; errno == unix.EINTR; {
			_, _, errno = unix.Syscall(unix.SYS_WRITEV, uintptr(d.fd), uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v)))
		}
	})
	return errno
}

// appendPiece appends p to a message.
func appendPiece(v []unix.Iovec, p []byte) []unix.Iovec {
	if len(p) == 0 {
		return v
	}
	v = append(v, unix.Iovec{Base: unsafe.SliceData(p)})
	v[len(v)-1].SetLen(len(p))
	return v
}
