// A service on several servers: the server that a Client uses, and the server that sent a reply.

package transport

import (
	"context"
	"errors"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// Moves follows a service between addresses ("host:port"), on the same server or another.
type Moves interface {
	// Connected is called for a new connection to addr before it carries calls; try makes one call
	// over the connection without retransmission. An error closes the connection and counts as a
	// failed attempt. Connected must return when ctx ends.
	Connected(ctx context.Context, addr string, try Try) error
	// Next returns the address for the next attempt after one at addr has failed: the same or
	// another. Next may block until ctx ends.
	Next(ctx context.Context, addr string) string
	// Here reports whether connections to addr may still be used. Here must not block.
	Here(addr string) bool
}

var errMoved = errors.New("the service is at another server now")

// A Try makes one call, without a second attempt.
type Try func(ctx context.Context, p *Proc, args xdr.Marshaler, res xdr.Unmarshaler) error

// A MoveError means that a server answers but must not be used. Moves returns it.
type MoveError struct{ Err error }

func (e *MoveError) Error() string { return e.Err.Error() }
func (e *MoveError) Unwrap() error { return e.Err }

// An Answer names the server that sent a reply.
type Answer struct {
	Addr string // the server's address ("host:port")
	// Elsewhere: an earlier attempt went to another address, and that server may have executed the
	// call. This server's duplicate request cache does not contain that call.
	Elsewhere bool
}

// enter notes an attempt at a server.
func (a *Answer) enter(addr string, try int) {
	a.Elsewhere = a.Elsewhere || try > 0 && addr != a.Addr
	a.Addr = addr
}

// dialUsable makes a connection that Moves accepts.
func (c *Client) dialUsable(ctx context.Context) (clientConn, error) {
	l, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	if c.cfg.Moves != nil {
		try := func(ctx context.Context, p *Proc, args xdr.Marshaler, res xdr.Unmarshaler) error {
			return c.try(ctx, l, p, args, res)
		}
		if err := c.cfg.Moves.Connected(ctx, c.Addr(), try); err != nil {
			l.close(err)
			return nil, err
		}
	}
	c.connects.Add(1)
	return l, nil
}

// try makes one call over a connection that is not in use yet.
func (c *Client) try(ctx context.Context, l clientConn, p *Proc, args xdr.Marshaler, res xdr.Unmarshaler) error {
	k := c.newOutCall()
	defer k.recycle()
	k.proc, k.args, k.res, k.maxReply = p, args, res, p.MaxReply
	k.cred, k.secure.session = c.auth.opaque, c.auth.session
	err := k.attempt(ctx, l, now().Add(c.cfg.RetryTimeout))
	var lost *lostError
	if errors.As(err, &lost) {
		return lost.err
	}
	return err
}

// Leave ends the connection unless it goes to addr, the service's new address; calls in progress
// are retransmitted there. Leave reconnects at once, because a program that spreads calls over
// several Clients prefers connected ones. addr is "" if only Moves knows it.
func (c *Client) Leave(addr string, why error) {
	c.mu.Lock()
	l := c.conn
	if c.at == addr {
		l = nil
	}
	c.mu.Unlock()
	if l == nil {
		return
	}
	c.discard(l, why)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil && c.dialing == nil && c.closing.Err() == nil {
		if addr != "" {
			c.addr.Store(&addr)
		}
		c.redial()
	}
}
