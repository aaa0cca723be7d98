// The simulated network: one connection, two directions, each a queue of bytes on their way.

package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// A link is one TCP connection.
type link struct {
	ends   [2]*end
	closed int // ends that have been closed; guarded by mu
	mu     sync.Mutex
	broken bool // by the network, not by an end

	stalled bool // for so long that an end may have given up
}

// A direction is the bytes from one end to the other. The link's mu guards it.
type direction struct {
	plan    *pathPlan
	tamper  *tamper // nil: bytes arrive unchanged
	window  int     // bytes that may be on their way or wait to be read
	sent    []byte  // written, on their way
	here    []byte  // arrived, not read
	carried int     // bytes that have arrived
	fin     bool    // the writer has ended
	finHere bool
	err     error // the connection is reset

	// signaled for bytes to carry, for bytes to read, for room, and at the end of a wait
	toCarry, arrived, freed, clock sync.Cond
}

func (d *direction) conds() []*sync.Cond {
	return []*sync.Cond{&d.toCarry, &d.arrived, &d.freed, &d.clock}
}

// room returns the number of bytes that can be written now.
func (d *direction) room() int { return d.window - len(d.sent) - len(d.here) }

// put sends bytes on their way.
func (d *direction) put(p []byte) {
	if d.tamper != nil {
		p = d.tamper.feed(p)
	}
	d.sent = append(d.sent, p...)
	d.toCarry.Signal()
}

// An end is the net.Conn of one endpoint.
type end struct {
	l       *link
	plan    socketPlan
	in, out *direction
	side    int
	watch   *observer
	frame   func(b []byte) // may change the start-up frame
	framed  bool
	writes  int // owned by the writer

	closed bool // guarded by link.mu, as is all that follows
	abrupt bool // Close drops what is on its way
	rd, wd time.Time
}

func newLink(p linkPlan, watch *observer) *link {
	l := &link{}
	var d [2]*direction
	for i := range d {
		d[i] = &direction{plan: p.paths[i], window: p.windows[i]}
		for _, c := range d[i].conds() {
			c.L = &l.mu
		}
	}
	for i := range l.ends {
		l.ends[i] = &end{l: l, plan: p.sockets[i], side: i, out: d[i], in: d[1-i], watch: watch}
	}
	for i := range d {
		go l.carry(d[i], d[1-i], l.ends[1-i])
	}
	return l
}

// carry delivers d's bytes to the end to, by d's plan.
func (l *link) carry(d, back *direction, to *end) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for len(d.sent) == 0 && !d.fin && d.err == nil {
			d.toCarry.Wait()
		}
		l.sleep(d, d.plan.delay())
		n := d.plan.piece(len(d.sent), d.carried)
		l.sleep(d, d.plan.duration(n))
		n = min(n, len(d.sent)) // the other direction may have emptied sent
		switch {
		case d.err != nil:
			return
		case d.plan.event(d.carried) == eventStall:
			l.stalled = l.stalled || d.plan.stall > patienceOfPeers
			l.sleep(d, d.plan.stall)
			d.plan.passed = true
			continue
		case d.plan.event(d.carried) == eventReset:
			l.broken = true
			l.sleep(d, d.plan.dead)
			l.reset(syscall.ECONNRESET)
			return
		case d.plan.event(d.carried) == eventFIN: // a middlebox ends both directions
			l.broken = true
			d.finHere, back.finHere, d.fin, back.fin = true, true, true, true
			d.sent, back.sent = nil, nil
			l.wakeAll()
			return
		case len(d.sent) == 0 && d.fin:
			d.finHere = true
			d.arrived.Broadcast()
			return
		case to.closed: // like a host that gets bytes for a closed socket
			l.reset(syscall.ECONNRESET)
			return
		}
		d.here = append(d.here, d.sent[:n]...)
		d.sent = d.sent[n:]
		d.carried += n
		d.arrived.Broadcast()
	}
}

// sleep waits for t, or until the connection is reset. It releases the lock meanwhile.
func (l *link) sleep(d *direction, t time.Duration) {
	if t <= 0 {
		return
	}
	until := time.Now().Add(t)
	timer := time.AfterFunc(t, func() {
		l.mu.Lock()
		d.clock.Broadcast()
		l.mu.Unlock()
	})
	defer timer.Stop()
	for d.err == nil && time.Now().Before(until) {
		d.clock.Wait()
	}
}

// isBroken reports whether the network has ended the connection.
func (l *link) isBroken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// hasStalled reports whether the network has given an end reason to end the connection.
func (l *link) hasStalled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stalled
}

func (l *link) wake() {
	l.mu.Lock()
	l.wakeAll()
	l.mu.Unlock()
}

// wakeAll wakes all waiters. The caller holds mu.
func (l *link) wakeAll() {
	for _, e := range l.ends {
		for _, c := range e.out.conds() {
			c.Broadcast()
		}
	}
}

// reset ends both directions at once; bytes on their way are lost. The caller holds mu.
func (l *link) reset(err error) {
	for _, e := range l.ends {
		e.in.sent, e.in.here = nil, nil
		if e.in.err == nil {
			e.in.err = err
		}
	}
	l.wakeAll()
}

// SetLinger with 0 makes Close a RST: bytes on their way never arrive.
func (e *end) SetLinger(sec int) error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	e.abrupt = sec == 0
	return nil
}

// Close sends FIN, or RST if there are unread bytes.
func (e *end) Close() error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	if e.closed {
		return net.ErrClosed
	}
	e.closed, e.out.fin = true, true
	if e.l.closed++; e.l.closed == 2 {
		e.l.reset(net.ErrClosed)
	} else if len(e.in.here) > 0 || e.abrupt {
		e.l.reset(syscall.ECONNRESET)
	}
	e.l.wakeAll()
	return nil
}

// CloseWrite sends FIN.
func (e *end) CloseWrite() error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	if e.closed {
		return net.ErrClosed
	}
	e.out.fin = true
	e.l.wakeAll()
	return nil
}

func (e *end) deadline(t time.Time, of ...*time.Time) error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	for _, d := range of {
		*d = t
	}
	if d := time.Until(t); !t.IsZero() && d > 0 && !e.closed {
		time.AfterFunc(d, e.l.wake)
	}
	e.l.wakeAll()
	return nil
}

func (e *end) SetDeadline(t time.Time) error      { return e.deadline(t, &e.rd, &e.wd) }
func (e *end) SetReadDeadline(t time.Time) error  { return e.deadline(t, &e.rd) }
func (e *end) SetWriteDeadline(t time.Time) error { return e.deadline(t, &e.wd) }
func (e *end) LocalAddr() net.Addr                { return addr(e.side) }
func (e *end) RemoteAddr() net.Addr               { return addr(1 - e.side) }

func addr(side int) net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, byte(1+side)), Port: 20049} }

// dumb removes the support of remote invalidation from a start-up frame (RFC 8797 §4.1).
func dumb(frame []byte) {
	id := binary.BigEndian.AppendUint32(nil, 0xf6ab0e18)
	if at := bytes.Index(frame, id); at >= 0 {
		frame[at+5] &^= 1
	}
}

// A listener accepts the connections sent to conns.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newListener(n int) *listener {
	return &listener{conns: make(chan net.Conn, n), done: make(chan struct{})}
}

func listenFor(c net.Conn) *listener {
	l := newListener(1)
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
