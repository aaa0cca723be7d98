// The link over any other net.Conn, with calls that block.

package iwarp

import (
	"fmt"
	"net"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
)

// A plainLink copies the bytes to send. So a slow peer delays no goroutine with a lock, and none
// that wants memory back. Only the transmit loop hands the copy over and calls the methods that
// send.
type plainLink struct {
	c net.Conn // set once

	// owned by the transmit loop
	room []byte // allocated once
	out  []byte // the bytes in room not yet handed over
}

func (l *plainLink) inline() bool   { return false }
func (l *plainLink) conn() net.Conn { return l.c }

// mss returns the connection's own size, if it has one: FPDUs that fill TLS records.
func (l *plainLink) mss() int {
	if c, ok := l.c.(interface{ MSS() int }); ok {
		return c.MSS()
	}
	return fallbackMSS
}

// read holds the sink while it waits, so the sink lends it no memory as head.
func (l *plainLink) read(s sink) (int, error) {
	_, p, _ := s.aim()
	n, err := l.c.Read(p)
	s.release(n, false)
	return n, err
}

// writev copies the pieces and returns full, so that the caller calls waitWritable next.
func (l *plainLink) writev(pieces [][]byte, _ core.WriteMode) (n int, full bool, err error) {
	if len(l.out) > 0 {
		return 0, true, nil
	}
	if l.room == nil {
		l.room = make([]byte, plainBytes)
	}
	for _, p := range pieces {
		n += copy(l.room[n:], p)
	}
	l.out = l.room[:n]
	return n, true, nil
}

func (l *plainLink) waitWritable() error {
	if err := l.write(nil); err != nil {
		return fmt.Errorf("%w: %w", rnic.ErrConnLost, err)
	}
	return nil
}

func (l *plainLink) write(p []byte) error {
	for len(l.out) > 0 {
		n, err := l.c.Write(l.out)
		l.out = l.out[n:]
		if err != nil {
			return err
		}
	}
	if len(p) == 0 {
		return nil
	}
	_, err := l.c.Write(p)
	return err
}

func (l *plainLink) closeWrite() error {
	c, ok := l.c.(interface{ CloseWrite() error })
	if !ok {
		return nil
	}
	if err := l.write(nil); err != nil {
		return err
	}
	return c.CloseWrite()
}
