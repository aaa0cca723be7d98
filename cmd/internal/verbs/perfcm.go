// perftest's option -R: its messages go over one connection-manager connection, the test over
// another.

package verbs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/verbs/exchange"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
)

// A cmConn is a connection-manager connection as a net.Conn: each Write is one Send, and Read
// returns one message after the other. It belongs to one goroutine, except Close.
type cmConn struct {
	// set once
	e        *end
	peer     netip.Addr
	mtu      int
	listener rnic.Listener // server: where the test's queue pair is connected

	rest     []byte    // the current message's unread bytes
	received []rnic.WC // messages received during a Write, oldest first
	read     time.Time // deadlines
	write    time.Time //
	once     sync.Once // guards Close
}

// cmRoom is how many messages may arrive unread, each at most cmMessage bytes. perftest waits for a
// reply to each.
const (
	cmRoom    = 4
	cmMessage = 256
)

// connectControlByCM is like connectControl, through the connection manager.
func connectControlByCM(ctx context.Context, o *Options) (*control, error) {
	own := *o
	own.Service, own.Size = rnic.RC, cmMessage
	e, err := newEnd(ctx, &own, cmRoom, cmRoom)
	if err != nil {
		return nil, err
	}
	c := &cmConn{e: e}
	for range cmRoom {
		if err := e.qp.PostRecv(rnic.RecvWR{Buf: make([]byte, cmMessage)}); err != nil {
			c.Close()
			return nil, err
		}
	}
	if err := c.open(ctx, o); err != nil {
		c.Close()
		return nil, err
	}
	return &control{Conn: c, ctx: ctx, silence: o.silence(), cm: c, release: context.AfterFunc(ctx, func() { c.Close() })}, nil
}

// open makes the connection. A server also starts to listen for the test's connection, before the
// client can request that connection.
func (c *cmConn) open(ctx context.Context, o *Options) (err error) {
	params := rnic.ConnParams{IRD: 1, ORD: 1}
	if o.server() {
		err = c.admit(ctx, o, params)
	} else if err = o.Device.Connect(ctx, c.e.qp, o.address(), params); err != nil {
		err = fmt.Errorf("%s: %w: the server has to be started first, with the same port, and -R", o.Host, err)
	}
	if err != nil {
		return err
	}
	id, err := roce.IdentityOf(c.e.qp)
	c.mtu = id.MTU
	c.peer = c.RemoteAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	return err
}

func (c *cmConn) admit(ctx context.Context, o *Options, params rnic.ConnParams) error {
	l, err := o.listen(rnic.RC)
	if err != nil {
		return err
	}
	c.listener = l
	if o.Service == rnic.UD { // UD is a separate service
		defer l.Close()
		if c.listener, err = o.listen(rnic.UD); err != nil {
			return err
		}
	}
	if o.Waiting != nil {
		o.Waiting(l.Addr())
	}
	return c.e.admit(ctx, l, params)
}

// until limits the next wait to a deadline; a zero t means no limit.
func (c *cmConn) until(t time.Time) {
	const never = 1000 * time.Hour
	d := never
	if !t.IsZero() {
		d = max(time.Until(t), 1)
	}
	c.e.maxWait.Store(int64(d))
}

// Write sends one message and returns when the peer has acknowledged it.
func (c *cmConn) Write(b []byte) (int, error) {
	c.until(c.write)
	err := c.e.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{b}})
	for err == nil {
		var wc rnic.WC
		if wc, err = c.e.next(); err == nil && wc.Op != rnic.OpRecv {
			return len(b), nil
		}
		c.received = append(c.received, wc)
	}
	return 0, c.e.wrap(err)
}

// Read returns bytes from the current or the next message.
func (c *cmConn) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		if err := c.message(); err != nil {
			return 0, err
		}
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// message takes the next message and reposts its receive.
func (c *cmConn) message() error {
	c.until(c.read)
	if len(c.received) == 0 {
		wc, err := c.e.next()
		if err != nil {
			return c.e.wrap(err)
		}
		c.received = append(c.received, wc)
	}
	wc := c.received[0]
	c.received = c.received[1:]
	c.rest = bytes.Clone(wc.Buf[:wc.Len])
	// the peer may have left after its message; the next completion reports that
	_ = c.e.qp.PostRecv(rnic.RecvWR{Buf: wc.Buf})
	return nil
}

// Close ends the connection immediately, and so ends waiting Reads and Writes.
func (c *cmConn) Close() error {
	c.once.Do(func() {
		if c.listener != nil {
			c.listener.Close()
		}
		c.e.stop(net.ErrClosed)
		c.e.close()
	})
	return nil
}

// LocalAddr and RemoteAddr return the queue pair's addresses.
func (c *cmConn) LocalAddr() net.Addr  { return c.e.qp.LocalAddr() }
func (c *cmConn) RemoteAddr() net.Addr { return c.e.qp.RemoteAddr() }

// SetDeadline and the others limit the next Read and Write. A timeout ends the connection.
func (c *cmConn) SetDeadline(t time.Time) error      { c.read, c.write = t, t; return nil }
func (c *cmConn) SetReadDeadline(t time.Time) error  { c.read = t; return nil }
func (c *cmConn) SetWriteDeadline(t time.Time) error { c.write = t; return nil }

// connectByCM connects the test's queue pair between two barriers, so both ends are ready. The
// barriers' keys do not name the queue pair yet.
func (p *perf) connectByCM() error {
	if err := p.exchangeKeys(exchange.Key{}, p.t.receive); err != nil {
		return err
	}
	params := rnic.ConnParams{IRD: p.test.reads, ORD: p.test.reads}
	var err error
	if p.o.server() {
		err = p.admit(p.ctx, p.t.cm.listener, params)
	} else {
		err = p.connectWithRetry(params)
	}
	if err != nil {
		return err
	}
	if p.id, err = roce.IdentityOf(p.qp); err != nil {
		return err
	}
	if p.o.Service == rnic.UD && !p.o.server() {
		p.target = p.qp.Peer()
	}
	return p.exchangeKeys(exchange.Key{}, p.t.receive)
}

// Retries if the server does not listen yet for the test's queue pair: Linux's server starts to
// listen after the barrier.
const (
	connectTries     = 100
	connectRetryWait = 50 * time.Millisecond
)

// connectWithRetry connects to a server that possibly does not listen yet.
func (p *perf) connectWithRetry(params rnic.ConnParams) error {
	for tries := 1; ; tries++ {
		err := p.o.Device.Connect(p.ctx, p.qp, p.o.address(), params)
		var rejected *rnic.RejectError
		if err == nil || tries == connectTries || errors.As(err, &rejected) || errors.Is(err, rnic.ErrConnLost) {
			return err
		}
		select {
		case <-time.After(connectRetryWait):
		case <-p.ctx.Done():
			return context.Cause(p.ctx)
		}
	}
}

// leaveByCM ends both connections. A server waits until its client ends the connections.
func (p *perf) leaveByCM() {
	if p.o.server() && p.o.Service == rnic.RC {
		p.awaitPeerClose()
	}
	p.finish()
	if p.o.server() {
		p.t.cm.e.awaitPeerClose()
	}
	p.t.cm.e.finish()
}
