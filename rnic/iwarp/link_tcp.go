// The link over a TCP socket: its system calls, which allocate nothing, and how its receiver waits.

package iwarp

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/rnic/internal/rxwait"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
	"golang.org/x/sys/unix"
)

// A tcpLink makes its own system calls through the runtime's poller. The functions passed to
// RawConn are made once, so that a call allocates nothing; their arguments are fields.
type tcpLink struct {
	// set once
	c                       *net.TCPConn
	rc                      syscall.RawConn
	readFn, writeFn, freeFn func(fd uintptr) bool
	countFn                 func(fd uintptr)
	count                   atomic.Int64 // bytes in the socket at the last call of countFn

	// owned by the receive loop
	sink   sink
	riov   [2]syscall.Iovec
	rn     int
	rerr   syscall.Errno
	noRead bool   // the sink wanted no bytes
	wait   waiter // the transmitter uses wait.large, too

	// owned by the transmitter
	wiov []syscall.Iovec // the pieces of one call: wfew, or a slice from iovecs
	wfew [16]syscall.Iovec
	wmsg syscall.Msghdr
	how  core.WriteMode
	wn   int
	werr error
	pfd  [1]unix.PollFd
}

func newTCPLink(c *net.TCPConn, in *rxwait.Inputs) (*tcpLink, error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	if err := c.SetNoDelay(true); err != nil { // RFC 5044 §5.1 [R5044-078]
		return nil, err
	}
	l := &tcpLink{c: c, rc: rc, wait: waiter{spin: rxwait.NewSpinner(), block: rxwait.NewBlocker(in)}}
	l.readFn, l.writeFn, l.freeFn = l.tryRead, l.tryWrite, l.park
	l.countFn = func(fd uintptr) {
		n, _ := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		l.count.Store(int64(n))
	}
	return l, nil
}

// tryRead reads until there is input, or the sink wants no bytes. It returns false to make the
// poller wait, as RawConn.Read requires.
func (l *tcpLink) tryRead(fd uintptr) bool {
	for {
		n, errno, ok := l.attempt(fd)
		if !ok || errno != syscall.EAGAIN {
			l.wait.found(n)
			l.rn, l.rerr, l.noRead = n, errno, !ok
			return true
		}
		state, err := l.wait.next(int(fd), l.sink.blocksThread())
		if err != nil {
			l.rn, l.rerr = 0, syscall.EBADF
			return true
		}
		if state == waitPark {
			return false
		}
	}
}

// A waitState is where a waiter is after a read that found nothing.
type waitState uint8

const (
	waitSpin  waitState = iota // the receiver reads again at once
	waitBlock                  // the thread was blocked in ppoll(2), and there is input
	waitPark                   // the goroutine parks in the network poller
)

// A waiter chooses how a receiver waits after a read that found nothing. It begins with the wait
// that ends soonest after input; a wait that would not pay is skipped (package rxwait).
//
//	         EAGAIN             refused, or over        refused, or in vain
//	┌──────┐ ─────► ┌──────┐ ──────────────────► ┌───────┐ ──────────► ┌──────┐
//	│ read │        │ spin │                     │ block │             │ park │
//	└──────┘        └──────┘                     └───────┘             └──────┘
//	    ▲   at once    │             input           │  input, deadline   │
//	    └──────────────┴─────────────────────────────┴────────────────────┘
type waiter struct {
	// owned with the receive right
	spin  rxwait.Spinner
	block rxwait.Blocker

	large atomic.Int32 // inputs until the stream no longer counts as one of large transfers
}

// next returns the wait after a read of fd that found nothing. keep: the thread may block, and keep
// its processor of Go's scheduler. After an error the goroutine MUST NOT park, because no input
// would wake it.
func (w *waiter) next(fd int, keep bool) (waitState, error) {
	if w.spin.Continue() {
		return waitSpin, nil
	}
	// Large transfers need the processors that a blocked thread would keep.
	if keep && w.large.Load() == 0 && w.block.Block(fd) {
		return waitBlock, nil
	}
	return waitPark, w.block.Unmask(fd)
}

// found records a read of n bytes, or the end of the input. Inputs of large transfers count
// separately, because receivers of small calls block for less time next to them.
func (w *waiter) found(n int) {
	w.spin.Found()
	if w.large.Load() > 0 {
		w.large.Add(-1)
		w.block.LargeInput()
	} else {
		w.block.Input()
	}
	w.note(n)
}

// note records a read or write of n bytes.
func (w *waiter) note(n int) {
	if n >= largeBytes {
		w.large.Store(largeInputs)
	}
}

// AddTo implements tally.Source.
func (w *waiter) AddTo(t tally.Table) {
	w.spin.AddTo(t)
	w.block.AddTo(t)
}

// attempt reads once, into memory that it borrows from the sink; ok is false when the sink wants no
// bytes.
func (l *tcpLink) attempt(fd uintptr) (n int, errno syscall.Errno, ok bool) {
	head, rest, ok := l.sink.aim()
	if !ok {
		return 0, 0, false
	}
	iov := l.riov[:0]
	for _, p := range [2][]byte{head, rest} {
		if len(p) > 0 {
			iov = append(iov, syscall.Iovec{Base: &p[0], Len: uint64(len(p))})
		}
	}
	n, errno = readv(fd, iov)
	l.riov = [2]syscall.Iovec{}
	l.sink.release(max(n, 0), errno == syscall.EAGAIN)
	return n, errno, true
}

// readv reads once; it reads a single range with read(2), which is cheaper. The socket does not
// block, so the call is hidden from the runtime, which would take the processor
// away from a long copy, and wake a thread for it.
func readv(fd uintptr, iov []syscall.Iovec) (int, syscall.Errno) {
	for {
		var n uintptr
		var errno syscall.Errno
		if len(iov) == 1 {
			n, _, errno = syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(iov[0].Base)), uintptr(iov[0].Len))
		} else {
			n, _, errno = syscall.RawSyscall(syscall.SYS_READV, fd, uintptr(unsafe.Pointer(&iov[0])), uintptr(len(iov)))
		}
		if errno != syscall.EINTR {
			return int(n), errno
		}
	}
}

func (l *tcpLink) read(s sink) (int, error) {
	l.sink, l.noRead = s, false
	err := l.rc.Read(l.readFn)
	l.sink = nil
	switch {
	case err != nil:
		return 0, err
	case l.noRead:
		return 0, nil
	case l.rerr != 0:
		return 0, l.rerr
	case l.rn == 0:
		return 0, io.EOF
	}
	return l.rn, nil
}

// waits reports whether there is something to read.
func (l *tcpLink) waits() bool {
	l.count.Store(0)
	_ = l.rc.Control(l.countFn)
	return l.count.Load() > 0
}

func (l *tcpLink) tryWrite(fd uintptr) bool {
	for {
		var n uintptr
		var errno syscall.Errno
		if flags := sendFlags(l.how); flags != 0 {
			l.wmsg = syscall.Msghdr{Iov: &l.wiov[0], Iovlen: uint64(len(l.wiov))}
			n, _, errno = syscall.RawSyscall(syscall.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&l.wmsg)), flags|unix.MSG_NOSIGNAL)
		} else {
			n, _, errno = syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&l.wiov[0])), uintptr(len(l.wiov)))
		}
		if errno == syscall.EINTR {
			continue
		}
		if l.wn, l.werr = int(n), nil; errno != 0 {
			l.wn, l.werr = 0, errno
		}
		return true
	}
}

// sendFlags returns the flags of sendmsg(2) for how.
func sendFlags(how core.WriteMode) (flags uintptr) {
	if how.Record {
		flags |= unix.MSG_EOR
	}
	return flags
}

// iovecs pools memory for batches of many pieces, because most connections never send such a batch.
var iovecs = sync.Pool{New: func() any { return new([core.MaxPieces]syscall.Iovec) }}

func (l *tcpLink) writev(pieces [][]byte, how core.WriteMode) (n int, full bool, err error) {
	var many *[core.MaxPieces]syscall.Iovec
	iov := l.wfew[:0]
	if len(pieces) > len(l.wfew) {
		many = iovecs.Get().(*[core.MaxPieces]syscall.Iovec)
		iov = many[:0]
	}
	for _, p := range pieces {
		iov = append(iov, syscall.Iovec{Base: unsafe.SliceData(p), Len: uint64(len(p))})
	}
	l.wiov, l.how = iov, how
	err = l.rc.Write(l.writeFn)
	l.wiov, l.wmsg, l.how = nil, syscall.Msghdr{}, core.WriteMode{}
	clear(iov) // the pieces' memory can then be collected
	if many != nil {
		iovecs.Put(many)
	}
	switch {
	case err != nil:
		return 0, false, err
	case l.werr == syscall.EAGAIN:
		return 0, true, nil
	case l.werr != nil:
		return 0, false, l.werr
	}
	l.wait.note(l.wn)
	return l.wn, false, nil
}

// park reports whether the socket has room; false makes the poller wait for room. park asks the
// socket itself, because the poller's edge event may have come before.
func (l *tcpLink) park(fd uintptr) bool {
	l.pfd[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT}
	n, err := unix.Poll(l.pfd[:], 0)
	return err != nil && err != unix.EINTR || n > 0
}

func (l *tcpLink) waitWritable() error {
	return l.rc.Write(l.freeFn)
}

func (l *tcpLink) write(p []byte) error {
	_, err := l.c.Write(p)
	return err
}

func (l *tcpLink) inline() bool      { return true }
func (l *tcpLink) conn() net.Conn    { return l.c }
func (l *tcpLink) closeWrite() error { return l.c.CloseWrite() }

func (l *tcpLink) mss() int {
	n := 0
	err := l.rc.Control(func(fd uintptr) {
		n, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG)
	})
	if err != nil || n <= 0 {
		return fallbackMSS
	}
	return n
}

// hasInput reports whether c is known to have unread bytes.
func hasInput(c net.Conn) bool {
	tc, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	rc, err := tc.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	rc.Control(func(fd uintptr) {
		n, _, _ = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return n > 0
}
