// Replies whose data is in a pipe: what is before it is written, then the socket takes the data from there.

package transport

import (
	"errors"
	"net"
	"os"
	"syscall"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"golang.org/x/sys/unix"
)

// A splicer makes system calls on the socket of a TCP connection through the runtime's poller, whose
// deadlines and Close end them. Whoever writes owns it. The functions that RawConn takes are made
// once and find their arguments in fields, so that nothing is allocated for a call.
type splicer struct {
	raw              syscall.RawConn // set once, as are the functions
	sendFn, spliceFn func(fd uintptr) bool

	bytes []byte // what sendFn has to send
	pipe  *mem.Pipe
	left  int  // bytes that spliceFn has to move
	whole int  // bytes that it has moved with no turn of others in between
	more  bool // others follow at once
	err   error
	burst burst

	pieces pieces
}

// newSplicer returns nil for what is not a TCP socket of the kernel's.
func newSplicer(nc net.Conn) *splicer {
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tc.SyscallConn()
	if err != nil {
		return nil
	}
	s := &splicer{raw: raw}
	s.sendFn, s.spliceFn = s.trySend, s.trySplice
	return s
}

// trySend sends bytes, which others follow, and reports whether there is nothing to wait for.
func (s *splicer) trySend(fd uintptr) bool {
	for len(s.bytes) > 0 {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&s.bytes[0])), uintptr(len(s.bytes)),
			unix.MSG_MORE|unix.MSG_NOSIGNAL, 0, 0)
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			s.err = errno
			return true
		default:
			s.bytes = s.bytes[n:]
		}
	}
	return true
}

// trySplice moves what the socket takes, and reports whether there is nothing to wait for.
func (s *splicer) trySplice(fd uintptr) bool {
	for s.left > 0 {
		piece, cut := s.pieces.next(s.left)
		n, err := s.pipe.Splice(fd, piece, s.more || piece < s.left)
		if errors.Is(err, syscall.EAGAIN) {
			return false
		}
		if err != nil {
			s.err = err
			return true
		}
		s.left -= n
		if cut {
			s.burst.add(n)
		} else {
			s.whole += n
		}
	}
	return true
}

// send writes b, then the n bytes of pipe. p is the patience with the peer.
func (s *splicer) send(b []byte, pipe *mem.Pipe, n int, more bool, p writeTimeout) error {
	s.bytes, s.pipe, s.left, s.whole, s.more, s.err = b, pipe, n, 0, more, nil
	defer func() { s.bytes, s.pipe = nil, nil }()
	if pipe.Len() != n { // the record's length is on its way, and could not be kept
		return errPipe
	}
	if err := s.run(s.sendFn, p); err != nil {
		return err
	}
	err := s.run(s.spliceFn, p)
	s.burst.add(s.whole)
	return err
}

var errPipe = errors.New("rpc: a pipe without the bytes of its item")

// run calls f until it is done, for as long as the peer takes bytes.
func (s *splicer) run(f func(fd uintptr) bool, p writeTimeout) error {
	for {
		p.wait()
		before := len(s.bytes) + s.left
		err := s.raw.Write(f)
		if err == nil {
			return s.err
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || !p.goOn(int64(before-len(s.bytes)-s.left)) {
			return err
		}
	}
}

// writeGathered writes what was gathered, and forgets it.
func (t *tcpConn) writeGathered() error {
	g := &t.gather
	if len(g.pipes) == 0 {
		return g.writeTo(t.nc, t)
	}
	defer g.reset()
	at := 0
	for _, p := range g.pipes {
		// The element before it is the head of its message, which leaves in one packet with the first of the data.
		if g.bufs = g.list[at : p.at-1]; len(g.bufs) > 0 {
			if err := g.drain(t.nc, t); err != nil {
				return err
			}
		}
		if err := t.splice.send(g.list[p.at-1], p.pipe, len(g.list[p.at]), p.at+1 < len(g.list), t); err != nil {
			return err
		}
		at = p.at + 1
	}
	g.bufs = g.list[at:]
	if len(g.bufs) == 0 {
		return nil
	}
	return g.drain(t.nc, t)
}
