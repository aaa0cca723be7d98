// The simulated network: one connection, two directions, each a queue of bytes on their way.

package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A link is one TCP connection.
type link struct {
	ends   [2]*end
	closed int // ends that have been closed; guarded by mu
	mu     sync.Mutex
	cond   *sync.Cond
	broken bool // by the network, not by an end
}

// A direction is the bytes from one end to the other. The link's mu guards it.
type direction struct {
	plan    *pathPlan
	window  int    // bytes that may be on their way or wait to be read
	sent    []byte // written, on their way
	here    []byte // arrived, not read
	carried int    // bytes that have arrived
	fin     bool   // the writer has ended
	finHere bool
	err     error // the connection is reset
}

// An end is the net.Conn of one endpoint.
type end struct {
	l       *link
	in, out *direction
	side    int
	watch   *observer
	frame   func(b []byte) // may change the start-up frame
	framed  bool

	closed bool // guarded by link.mu, as is all that follows
	rd, wd time.Time
}

func newLink(w [2]*pathPlan, window [2]int, watch *observer) *link {
	l := &link{}
	l.cond = sync.NewCond(&l.mu)
	d := [2]*direction{{plan: w[0], window: window[0]}, {plan: w[1], window: window[1]}}
	for i := range l.ends {
		l.ends[i] = &end{l: l, side: i, out: d[i], in: d[1-i], watch: watch}
	}
	for i := range d {
		go l.carry(d[i], d[1-i], l.ends[1-i])
	}
	return l
}

// carry brings the bytes of d to the end to.
func (l *link) carry(d, back *direction, to *end) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for len(d.sent) == 0 && !d.fin && d.err == nil {
			l.cond.Wait()
		}
		l.sleep(d, d.plan.delay())
		n := d.plan.piece(len(d.sent), d.carried)
		switch {
		case d.err != nil:
			return
		case d.plan.event(d.carried) == eventStall:
			l.sleep(d, d.plan.stall)
			d.plan.passed = true
			continue
		case d.plan.event(d.carried) == eventReset:
			l.broken = true
			l.sleep(d, d.plan.dead)
			l.reset(syscall.ECONNRESET)
			return
		case d.plan.event(d.carried) == eventFIN: // somebody on the way ends both directions
			l.broken = true
			d.finHere, back.finHere, d.fin, back.fin = true, true, true, true
			d.sent, back.sent = nil, nil
			l.cond.Broadcast()
			return
		case len(d.sent) == 0 && d.fin:
			d.finHere = true
			l.cond.Broadcast()
			return
		case to.closed: // as a host does that is sent bytes for a closed socket
			l.reset(syscall.ECONNRESET)
			return
		}
		d.here = append(d.here, d.sent[:n]...)
		d.sent = d.sent[n:]
		d.carried += n
		l.cond.Broadcast()
	}
}

// sleep waits, with the lock given away, unless the connection is reset meanwhile.
func (l *link) sleep(d *direction, t time.Duration) {
	if t <= 0 {
		return
	}
	until := time.Now().Add(t)
	timer := time.AfterFunc(t, l.wake)
	defer timer.Stop()
	for d.err == nil && time.Now().Before(until) {
		l.cond.Wait()
	}
}

// isBroken says that the network has ended the connection.
func (l *link) isBroken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

func (l *link) wake() {
	l.mu.Lock()
	l.cond.Broadcast()
	l.mu.Unlock()
}

// reset ends both directions at once; what is on its way is lost. The caller holds mu.
func (l *link) reset(err error) {
	for _, e := range l.ends {
		e.in.sent, e.in.here = nil, nil
		if e.in.err == nil {
			e.in.err = err
		}
	}
	l.cond.Broadcast()
}

func (e *end) Read(p []byte) (int, error) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	for {
		switch d := e.in; {
		case e.closed:
			return 0, net.ErrClosed
		case over(e.rd):
			return 0, os.ErrDeadlineExceeded
		case len(d.here) > 0:
			n := copy(p, d.here)
			d.here = d.here[n:]
			e.watch.arrived(1-e.side, p[:n])
			e.l.cond.Broadcast()
			return n, nil
		case d.err != nil:
			return 0, d.err
		case d.finHere:
			return 0, io.EOF
		}
		e.l.cond.Wait()
	}
}

func (e *end) Write(p []byte) (int, error) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	if !e.framed && e.frame != nil {
		p = bytes.Clone(p)
		e.frame(p)
	}
	e.framed = true
	done := 0
	for {
		d := e.out
		switch {
		case e.closed:
			return done, net.ErrClosed
		case over(e.wd):
			return done, os.ErrDeadlineExceeded
		case d.err != nil:
			return done, d.err
		case d.fin:
			return done, syscall.EPIPE
		case len(p) == 0:
			return done, nil
		}
		n := min(len(p), d.window-len(d.sent)-len(d.here))
		if n <= 0 {
			e.l.cond.Wait()
			continue
		}
		e.watch.sent(e.side, p[:n])
		d.sent = append(d.sent, p[:n]...)
		p = p[n:]
		done += n
		e.l.cond.Broadcast()
	}
}

// Close is FIN, or RST when there are bytes that nobody has read.
func (e *end) Close() error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	if e.closed {
		return net.ErrClosed
	}
	e.closed, e.out.fin = true, true
	if e.l.closed++; e.l.closed == 2 {
		e.l.reset(net.ErrClosed)
	} else if len(e.in.here) > 0 {
		e.l.reset(syscall.ECONNRESET)
	}
	e.l.cond.Broadcast()
	return nil
}

// CloseWrite is FIN.
func (e *end) CloseWrite() error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	if e.closed {
		return net.ErrClosed
	}
	e.out.fin = true
	e.l.cond.Broadcast()
	return nil
}

func over(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

func (e *end) deadline(t time.Time, of ...*time.Time) error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	for _, d := range of {
		*d = t
	}
	if d := time.Until(t); !t.IsZero() && d > 0 && !e.closed {
		time.AfterFunc(d, e.l.wake)
	}
	e.l.cond.Broadcast()
	return nil
}

func (e *end) SetDeadline(t time.Time) error      { return e.deadline(t, &e.rd, &e.wd) }
func (e *end) SetReadDeadline(t time.Time) error  { return e.deadline(t, &e.rd) }
func (e *end) SetWriteDeadline(t time.Time) error { return e.deadline(t, &e.wd) }
func (e *end) LocalAddr() net.Addr                { return addr(e.side) }
func (e *end) RemoteAddr() net.Addr               { return addr(1 - e.side) }

func addr(side int) net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, byte(1+side)), Port: 20049} }

// dumb makes a start-up frame say nothing of remote invalidation (RFC 8797 §4.1).
func dumb(frame []byte) {
	id := binary.BigEndian.AppendUint32(nil, 0xf6ab0e18)
	if at := bytes.Index(frame, id); at >= 0 {
		frame[at+5] &^= 1
	}
}

// A listener has one connection to give.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func listenFor(c net.Conn) *listener {
	l := &listener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
	l.conns <- c
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr { return addr(1) }

var errNever = errors.New("it did not come about")
