// The device: reading, writing, and waiting for requests, by system calls on one descriptor.

package fuseloop

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A device is the descriptor of a FUSE connection, with O_NONBLOCK, and how to wait for it.
//
// In Go's network poller is an epoll instance that has the device as its only member, and not the
// device: the poller's thread would be woken by every request, by those too that the reader finds
// by looking for them. The member is armed (EPOLLONESHOT) for as long as the reader sleeps.
type device struct {
	// set once
	file *os.File // the epoll instance
	conn syscall.RawConn
	fd   int // for who is counted in flight, or has conn: the descriptor is closed after all of these have ended
	wait func(ep uintptr) bool

	// owned by the reader
	armed bool
	try   func() bool // of await
}

// openDevice takes fd over, with an error too.
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

// close is called once, when nobody uses the descriptor but for notices.
func (d *device) close() {
	d.file.Close() // waits for them
	unix.Close(d.fd)
}

// connected reports whether the kernel still has the mount.
func (d *device) connected() (yes bool) {
	_ = d.conn.Control(func(uintptr) { // its error: the descriptor is closed
		p := [1]unix.PollFd{{Fd: int32(d.fd)}} // errors and the end are told of unasked
		n, err := unix.Poll(p[:], 0)
		yes = err != nil || n == 0
	})
	return yes
}

// await calls try until it reports true: at once, and when there is something to be read.
func (d *device) await(try func() bool) error {
	d.try = try
	return d.conn.Read(d.wait)
}

// arm has the poller told of what is there to be read, or comes. It reports false where it cannot
// be: try again.
func (d *device) arm(ep int) bool {
	d.armed = unix.EpollCtl(ep, unix.EPOLL_CTL_MOD, d.fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT}) == nil
	return d.armed
}

// disarm takes the event, which is what disarms.
func (d *device) disarm(ep int) {
	if !d.armed {
		return
	}
	d.armed = false
	var ev [1]unix.EpollEvent
	unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(ep), uintptr(unsafe.Pointer(&ev)), 1, 0, 0, 0)
}

// The runtime's scheduler is not told of reads and of writes of replies, for they wait for nobody:
// a thread of it that watches who is in system calls would wake for each request, and take a share
// of the processors that is larger than the calls'.

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

// notice is writev for who is not counted in flight: the descriptor cannot be closed, and its
// number be another file's, while it is under way. It can wait, for pages and for locks of the
// kernel's.
func (d *device) notice(v []unix.Iovec) syscall.Errno {
	errno := unix.EBADF
	_ = d.conn.Control(func(uintptr) { // its error: the descriptor is closed
		for errno = unix.EINTR; errno == unix.EINTR; {
			_, _, errno = unix.Syscall(unix.SYS_WRITEV, uintptr(d.fd), uintptr(unsafe.Pointer(unsafe.SliceData(v))), uintptr(len(v)))
		}
	})
	return errno
}

// piece appends p to a message.
func piece(v []unix.Iovec, p []byte) []unix.Iovec {
	if len(p) == 0 {
		return v
	}
	v = append(v, unix.Iovec{Base: unsafe.SliceData(p)})
	v[len(v)-1].SetLen(len(p))
	return v
}
