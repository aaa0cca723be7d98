// The sockets on a simulated connection: those whose calls block, and those that report when they
// are ready.

package sim

import (
	"bytes"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
)

// A socketPlan is the behavior of one end's socket.
type socketPlan struct {
	ready bool // it is an iwarp.ReadyConn; false: its calls block
	short int  // bytes that one TryWrite takes at most; 0: as much as there is room for
	mss   int  // bytes of a segment, of a ready socket
	// how often the writer lets others run after its bytes have left, before the call returns
	yield int
}

// lingers is the number of writes per end that return late.
const lingers = 60

// conn returns e in the form for the endpoint: with or without readiness.
func (e *end) conn() net.Conn {
	if e.plan.ready {
		return readyEnd{e}
	}
	return e
}

// canRead reports whether read has a result. The caller holds mu.
func (e *end) canRead() bool {
	d := e.in
	return e.closed || over(e.rd) || len(d.here) > 0 || d.err != nil || d.finHere
}

// read tries once, and returns EAGAIN if there are no bytes yet. The caller holds mu.
func (e *end) read(bufs ...[]byte) (int, error) {
	d := e.in
	switch {
	case e.closed:
		return 0, net.ErrClosed
	case over(e.rd):
		return 0, os.ErrDeadlineExceeded
	case len(d.here) > 0:
		done := 0
		for _, p := range bufs {
			n := copy(p, d.here)
			d.here = d.here[n:]
			e.watch.arrived(1-e.side, p[:n])
			done += n
		}
		d.freed.Broadcast()
		return done, nil
	case d.err != nil:
		return 0, d.err
	case d.finHere:
		return 0, io.EOF
	}
	return 0, syscall.EAGAIN
}

// writeError returns the reason why nothing can be written any more. The caller holds mu.
func (e *end) writeError() error {
	switch d := e.out; {
	case e.closed:
		return net.ErrClosed
	case over(e.wd):
		return os.ErrDeadlineExceeded
	case d.err != nil:
		return d.err
	case d.fin:
		return syscall.EPIPE
	}
	return nil
}

// write takes as much as there is room for. The caller holds mu.
func (e *end) write(p []byte) int {
	n := min(len(p), e.out.room())
	if n <= 0 {
		return 0
	}
	e.watch.sent(e.side, p[:n])
	e.out.put(p[:n])
	return n
}

func (e *end) Read(p []byte) (int, error) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	for !e.canRead() {
		e.in.arrived.Wait()
	}
	return e.read(p)
}

func (e *end) Write(p []byte) (int, error) {
	defer e.linger()
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	if !e.framed && e.frame != nil {
		p = bytes.Clone(p)
		e.frame(p)
	}
	e.framed = true
	done := 0
	for {
		if err := e.writeError(); err != nil || done == len(p) {
			return done, err
		}
		n := e.write(p[done:])
		if done += n; n == 0 {
			e.out.freed.Wait()
		}
	}
}

// linger waits between the moment at which a write takes the bytes, and its return. The peer may
// have answered by then.
func (e *end) linger() {
	if e.writes++; e.writes <= lingers {
		for range e.plan.yield {
			runtime.Gosched()
		}
	}
}

// A readyEnd is an end whose calls do not block.
type readyEnd struct{ *end }

var _ iwarp.ReadyConn = readyEnd{}

func (e readyEnd) MSS() int { return e.plan.mss }

func (e readyEnd) TryRead(bufs [][]byte) (int, error) {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	return e.read(bufs...)
}

func (e readyEnd) TryWrite(bufs [][]byte) (int, error) {
	defer e.linger()
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	if err := e.writeError(); err != nil {
		return 0, err
	}
	done, most := 0, e.plan.short
	for _, p := range bufs {
		if most > 0 {
			p = p[:min(len(p), most-done)]
		}
		n := e.write(p)
		if done += n; n < len(p) || done == most && most > 0 {
			break
		}
	}
	if done == 0 {
		return 0, syscall.EAGAIN
	}
	return done, nil
}

func (e readyEnd) WaitReadable() error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	for !e.canRead() {
		e.in.arrived.Wait()
	}
	if e.closed {
		return net.ErrClosed
	}
	if over(e.rd) {
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (e readyEnd) WaitWritable() error {
	e.l.mu.Lock()
	defer e.l.mu.Unlock()
	for e.writeError() == nil && e.out.room() <= 0 {
		e.out.freed.Wait()
	}
	return e.writeError()
}

func over(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }
