// Connections in memory with non-blocking calls, like a TCP socket watched by a poller.

package rnictest

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A Ready is one end of a connection that reports its readiness: an iwarp.ReadyConn. Bytes written
// to one end can be read from the other at once.
type Ready struct {
	net.Conn // nil: other methods are not called

	// AfterWrite, if not nil, runs after bytes have left and before TryWrite returns: the peer may
	// have answered by then. It is set before the connection is used.
	AfterWrite func()

	pair *readyPair // set once
	peer *Ready     // set once

	in     []byte    // received and unread; guarded by pair.mu, as is all below
	fin    bool      // no more bytes will come
	rd, wd time.Time // deadlines
	closed bool
}

type readyPair struct {
	mu     sync.Mutex
	change sync.Cond // signals every change at either end
}

// ReadyPipe returns a connection's two ends. It has room for all written bytes.
func ReadyPipe() (a, b *Ready) {
	p := &readyPair{}
	p.change.L = &p.mu
	a, b = &Ready{pair: p}, &Ready{pair: p}
	a.peer, b.peer = b, a
	return a, b
}

func passed(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

// TryRead reads the available bytes.
func (r *Ready) TryRead(bufs [][]byte) (n int, err error) {
	r.pair.mu.Lock()
	defer r.pair.mu.Unlock()
	switch {
	case r.closed:
		return 0, net.ErrClosed
	case passed(r.rd):
		return 0, os.ErrDeadlineExceeded
	case len(r.in) == 0 && r.fin:
		return 0, io.EOF
	case len(r.in) == 0:
		return 0, syscall.EAGAIN
	}
	for _, b := range bufs {
		c := copy(b, r.in)
		r.in = r.in[c:]
		n += c
	}
	return n, nil
}

// WaitReadable returns when TryRead has a result.
func (r *Ready) WaitReadable() error {
	r.pair.mu.Lock()
	defer r.pair.mu.Unlock()
	for !r.closed && !passed(r.rd) && len(r.in) == 0 && !r.fin {
		r.pair.change.Wait()
	}
	switch {
	case r.closed:
		return net.ErrClosed
	case passed(r.rd):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// TryWrite takes all of bufs.
func (r *Ready) TryWrite(bufs [][]byte) (n int, err error) {
	r.pair.mu.Lock()
	switch {
	case r.closed:
		err = net.ErrClosed
	case passed(r.wd):
		err = os.ErrDeadlineExceeded
	case r.peer.fin || r.peer.closed:
		err = syscall.EPIPE
	}
	if err == nil {
		for _, b := range bufs {
			r.peer.in = append(r.peer.in, b...)
			n += len(b)
		}
		r.pair.change.Broadcast()
	}
	r.pair.mu.Unlock()
	if err == nil && r.AfterWrite != nil {
		r.AfterWrite()
	}
	return n, err
}

// WaitWritable returns at once: there is always room.
func (r *Ready) WaitWritable() error { return nil }

// Read waits for bytes.
func (r *Ready) Read(b []byte) (int, error) {
	for {
		n, err := r.TryRead([][]byte{b})
		if err != syscall.EAGAIN {
			return n, err
		}
		if err := r.WaitReadable(); err != nil {
			return 0, err
		}
	}
}

// Write takes all of b.
func (r *Ready) Write(b []byte) (int, error) { return r.TryWrite([][]byte{b}) }

// Unread returns how many received bytes are unread.
func (r *Ready) Unread() int {
	r.pair.mu.Lock()
	defer r.pair.mu.Unlock()
	return len(r.in)
}

// CloseWrite sends FIN.
func (r *Ready) CloseWrite() error {
	r.set(func() { r.peer.fin = true })
	return nil
}

// Close ends both directions.
func (r *Ready) Close() error {
	r.set(func() { r.closed, r.peer.fin = true, true })
	return nil
}

// SetDeadline sets both deadlines; SetReadDeadline and SetWriteDeadline are those of any net.Conn.
func (r *Ready) SetDeadline(t time.Time) error {
	r.SetReadDeadline(t)
	return r.SetWriteDeadline(t)
}

func (r *Ready) SetReadDeadline(t time.Time) error  { return r.deadline(&r.rd, t) }
func (r *Ready) SetWriteDeadline(t time.Time) error { return r.deadline(&r.wd, t) }

func (r *Ready) deadline(at *time.Time, t time.Time) error {
	r.set(func() { *at = t })
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		time.AfterFunc(wait, func() { r.set(func() {}) })
	}
	return nil
}

// set applies a change and wakes all waiting goroutines.
func (r *Ready) set(change func()) {
	r.pair.mu.Lock()
	defer r.pair.mu.Unlock()
	change()
	r.pair.change.Broadcast()
}

// LocalAddr and RemoteAddr return unreachable addresses.
func (r *Ready) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 700} }
func (r *Ready) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 20049} }
