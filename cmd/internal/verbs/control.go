// The connection on which two ends exchange their parameters: TCP or the connection manager.

package verbs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// A control is the connection for parameters. It belongs to one goroutine.
type control struct {
	net.Conn
	ctx     context.Context
	silence time.Duration
	release func() bool
	cm      *cmConn // the Conn, if the connection manager made it
}

// connectControl connects to the server's port, or accepts one client. The connection ends with
// ctx.
func connectControl(ctx context.Context, o *Options) (*control, error) {
	c, err := o.connect(ctx)
	if err != nil {
		return nil, err
	}
	t := &control{Conn: c, ctx: ctx, silence: o.silence()}
	t.release = context.AfterFunc(ctx, func() { c.Close() })
	return t, nil
}

func (o *Options) connect(ctx context.Context) (net.Conn, error) {
	if !o.server() {
		d := net.Dialer{Timeout: o.ConnectTimeout}
		if o.Local.IsValid() {
			d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(o.Local, 0))
		}
		c, err := d.DialContext(ctx, "tcp", o.address())
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, fmt.Errorf("%s: %w: the server has to be started first, with the same port", o.Host, err)
		}
		return c, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.address())
	if err != nil {
		return nil, err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	if o.Waiting != nil {
		o.Waiting(l.Addr())
	}
	c, err := l.Accept()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return c, err
}

// close ends the connection.
func (t *control) close() {
	t.release()
	t.Conn.Close()
}

// peer returns the other end's address.
func (t *control) peer() netip.Addr {
	return t.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().WithZone("")
}

// send sends one message.
func (t *control) send(b []byte) error {
	_ = t.SetWriteDeadline(time.Now().Add(t.silence))
	_, err := t.Write(b)
	return t.wrap("send to", err)
}

// receive waits for an n-byte message; silence limits the wait.
func (t *control) receive(n int) ([]byte, error) {
	_ = t.SetReadDeadline(time.Now().Add(t.silence))
	return t.read(n)
}

// await is like receive, without a time limit.
func (t *control) await(n int) ([]byte, error) {
	_ = t.SetReadDeadline(time.Time{})
	return t.read(n)
}

func (t *control) read(n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(t, b)
	return b, t.wrap("receive from", err)
}

// exchange sends b and receives as many bytes. The client sends first, the server receives first.
func (t *control) exchange(server bool, b []byte, wait func(n int) ([]byte, error)) (got []byte, err error) {
	if !server {
		if err := t.send(b); err != nil {
			return nil, err
		}
		return wait(len(b))
	}
	if got, err = wait(len(b)); err != nil {
		return nil, err
	}
	return got, t.send(b)
}

// wrap adds the attempted step to an error.
func (t *control) wrap(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case t.ctx.Err() != nil:
		return context.Cause(t.ctx)
	case errors.Is(err, errSilent):
		return fmt.Errorf("%v: %w", t.RemoteAddr(), errSilent)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%v has closed the connection: it has ended, or is another program, or one of another version", t.RemoteAddr())
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("%v: %w", t.RemoteAddr(), errSilent)
	}
	return fmt.Errorf("%s %v: %w", what, t.RemoteAddr(), err)
}
