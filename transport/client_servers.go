// A service that several servers have: which of them a Client is connected to, whose answer a
// reply is, and which port a host's port mapper names.

package transport

import (
	"context"
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// Moves follows a service from one address to another ("host:port"), of the same server or of
// another one.
type Moves interface {
	// Connected is told that a connection to addr has been made, before calls go over it; try makes
	// one call over it that is not sent again. With an error the connection is closed, as if it
	// could not be made. It must return when ctx ends.
	Connected(ctx context.Context, addr string, try Try) error
	// Next returns where to connect to after an attempt at addr has failed: there again, or
	// elsewhere. It may take as long as ctx lets it.
	Next(ctx context.Context, addr string) string
	// Here reports whether connections to addr may be used still. It must not wait.
	Here(addr string) bool
}

var errMoved = errors.New("the service is at another server now")

// A Try makes one call, without a second attempt.
type Try func(ctx context.Context, p *Proc, args xdr.Marshaler, res xdr.Unmarshaler) error

// A MoveError is a server that answers and is not to be used. Moves returns it.
type MoveError struct{ Err error }

func (e *MoveError) Error() string { return e.Err.Error() }
func (e *MoveError) Unwrap() error { return e.Err }

// An Answer tells which server a reply is from.
type Answer struct {
	Addr string // of the server ("host:port")
	// Elsewhere: an attempt before went to another address, and may have been carried out there.
	// The cache of duplicate requests of this server does not know of it.
	Elsewhere bool
}

// enter notes that an attempt is made at a server.
func (a *Answer) enter(addr string, try int) {
	a.Elsewhere = a.Elsewhere || try > 0 && addr != a.Addr
	a.Addr = addr
}

// dialUsable makes a connection that Moves has nothing against.
func (c *Client) dialUsable(ctx context.Context) (link, error) {
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
func (c *Client) try(ctx context.Context, l link, p *Proc, args xdr.Marshaler, res xdr.Unmarshaler) error {
	k := c.newOutCall()
	defer k.recycle()
	k.proc, k.cred, k.args, k.res, k.maxReply = p, c.auth.opaque, args, res, p.MaxReply
	err := k.attempt(ctx, l, now().Add(c.cfg.RetryTimeout))
	var lost *lostError
	if errors.As(err, &lost) {
		return lost.err
	}
	return err
}

// Leave ends the connection unless it is to addr, where the service is now: the calls under way are
// sent again there. It connects there at once, for who spreads calls over several Clients prefers
// those that are connected. addr is "" where only Moves knows it.
func (c *Client) Leave(addr string, why error) {
	c.mu.Lock()
	l := c.link
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
	if c.link == nil && c.dialing == nil && c.closing.Err() == nil {
		if addr != "" {
			c.addr.Store(&addr)
		}
		c.redial()
	}
}

var getPortProc = Proc{Prog: rpcbind.Program, Vers: rpcbind.Version, Proc: rpcbind.ProcGetport, Name: "PMAPPROC_GETPORT", MaxReply: 4}

// PortOf returns the TCP port of a program, as the port mapper says that c is connected to (RFC
// 1833 §3.2, version 2).
func (c *Client) PortOf(ctx context.Context, prog, vers uint32) (uint16, error) {
	var res rpcbind.PortRes
	if err := c.Call(ctx, &getPortProc, &rpcbind.Mapping{Prog: prog, Vers: vers, Prot: rpcbind.TCP}, &res, nil, 0); err != nil {
		return 0, err
	}
	if res.Port == 0 || res.Port > 65535 {
		return 0, fmt.Errorf("program %d version %d is not registered", prog, vers)
	}
	return uint16(res.Port), nil
}
