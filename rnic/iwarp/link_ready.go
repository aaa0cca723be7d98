// The link over a net.Conn that reports when it is ready instead of blocking.

package iwarp

import (
	"errors"
	"net"
	"syscall"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
)

// A QP uses a ReadyConn like a *net.TCPConn: posters hand bytes over themselves, large payload is
// read straight into its destination, and no goroutine holds memory while it waits for the peer.
// Over any other net.Conn the transmit loop alone writes, and blocks.
//
// The Try methods never block; an error that is syscall.EAGAIN means: nothing could be moved now.
// The Wait methods return nil once there is something to read (or the end of the stream) or room to
// write. Deadlines and Close end these waits like those of Read and Write. One goroutine at a time
// reads, one writes. If a ReadyConn has a method MSS() int, its result is the largest segment in
// bytes.
type ReadyConn interface {
	net.Conn
	// TryRead fills bufs in order with the available input; io.EOF at the end of the stream.
	TryRead(bufs [][]byte) (int, error)
	// TryWrite takes as many bytes as it has room for, in order. It keeps no reference to bufs.
	TryWrite(bufs [][]byte) (int, error)
	WaitReadable() error
	WaitWritable() error
}

// A readyLink is the link over a ReadyConn.
type readyLink struct {
	c    ReadyConn // set once
	into [2][]byte // owned by the receive loop
}

func (l *readyLink) read(s sink) (int, error) {
	for {
		head, rest, ok := s.aim()
		if !ok {
			return 0, nil
		}
		l.into = [2][]byte{head, rest}
		n, err := l.c.TryRead(l.into[:])
		l.into = [2][]byte{}
		again := errors.Is(err, syscall.EAGAIN)
		s.release(max(n, 0), again)
		if !again {
			return n, err
		}
		if err := l.c.WaitReadable(); err != nil {
			return 0, err
		}
	}
}

func (l *readyLink) writev(pieces [][]byte, _ core.WriteMode) (n int, full bool, err error) {
	n, err = l.c.TryWrite(pieces)
	if errors.Is(err, syscall.EAGAIN) {
		return n, true, nil
	}
	return n, false, err
}

func (l *readyLink) write(p []byte) error {
	_, err := l.c.Write(p)
	return err
}

func (l *readyLink) closeWrite() error {
	if c, ok := l.c.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

func (l *readyLink) mss() int {
	if c, ok := l.c.(interface{ MSS() int }); ok {
		return c.MSS()
	}
	return fallbackMSS
}

func (l *readyLink) waitWritable() error { return l.c.WaitWritable() }
func (l *readyLink) inline() bool        { return true }
func (l *readyLink) conn() net.Conn      { return l.c }
