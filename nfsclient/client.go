// The Client: connections to one server.

package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
)

// Options is how a Client behaves. The zero value is right for most.
type Options struct {
	Transport Transport // RDMA unless said otherwise

	// Conns is the number of connections that calls are spread over; 0: 1. With several,
	// one has little payload at any time, so that small calls need not wait for much.
	Conns int

	// MountPort is the TCP port of the server's MOUNT service. 0: MOUNT is asked
	// for on the NFS connection itself, then at the port that rpcbind names.
	MountPort int
	// MountHost is the host of the MOUNT service, at MountPort or at the port from its rpcbind. "":
	// the server.
	MountHost string

	// LockPort is the TCP port of the server's lock manager. 0: it is asked for on the NFS
	// connection, then at the port that rpcbind names, with the first lock.
	LockPort int

	// Cred is who calls; nil: AUTH_SYS as this process.
	Cred *transport.Cred

	// CallTimeout bounds one call with all its repetitions; 0: 60 s; transport.Hard:
	// it waits for the server for as long as its context lets it, as a hard mount does.
	CallTimeout time.Duration

	// RetryTimeout is how long the server may answer nothing at all, while calls
	// wait, before they are sent again over a new connection; 0: 20 s, or a third of CallTimeout.
	RetryTimeout time.Duration

	// Responding, if set, is told false when the server has answered nothing for
	// some seconds while calls wait, and true when it answers again; for each of
	// Conns by itself. It must not block.
	Responding func(bool)

	// Moved, if set, is told of each of several servers ("host:port") when the Client goes on with
	// it, and, with an error, when it answers and is not used. It must not block.
	Moved func(server string, err error)

	// ReadSize and WriteSize are the most bytes of one READ and one WRITE of the mounted
	// exports; 0: as many as client and server can.
	ReadSize, WriteSize int

	// Device is the RNIC for RDMA; nil: one of our own, of Provider and with this CRC mode and
	// KeepThreads (rnic.DeviceConfig).
	Device      *rnic.Device
	Provider    Provider
	CRC         rnic.CRCMode
	KeepThreads bool

	// Dial makes TCP connections, through a proxy, say; nil: a net.Dialer does, from a
	// port below 1024 where this process may have one. Those for RDMA are the Device's.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// maxConns bounds Options.Conns.
const maxConns = 64

// A Client is a connection, or several, to one server. It is safe for
// concurrent use; its methods are the procedures of NFSv3 on handles.
type Client struct {
	// set once; what they point at is shared with all that As returns
	home  location // one address for all services and connections, though a name was given
	cfg   transport.ClientConfig
	opt   Options
	conns []*conn
	auth  *transport.Auth // who calls; nil: the one of opt
	turn  *atomic.Uint32  // which connection is next
	calls *callCounts
	acl   *aclServer
	locks *lockManager

	foreign bool // the RNIC is Options.Device, of an unknown provider
}

// As returns a Client whose calls are made in the name of another caller over the
// same connections, which Close of either closes. It is made once for each caller
// and kept: its calls cost what those of c do.
func (c *Client) As(cred transport.Cred) *Client {
	as := *c
	as.auth = transport.NewAuth(cred)
	return &as
}

// Dial connects to addr, HOST:PORT or HOST, whose port is then the transport's default. Several
// servers of one volume are separated by commas: one that answers is used, and when it does not any
// more the next one that has the mounted directories by the same handles. Close closes all
// connections.
func Dial(ctx context.Context, addr string, opt Options) (*Client, error) {
	t, err := ParseServer(addr)
	if err != nil {
		return nil, err
	}
	t.Transport = opt.Transport
	if opt.CallTimeout < 0 {
		opt.CallTimeout = transport.Hard
	}
	if opt.Conns < 0 || opt.Conns > maxConns {
		return nil, fmt.Errorf("%d connections: not in 1..%d", opt.Conns, maxConns)
	}
	c := &Client{opt: opt, turn: new(atomic.Uint32), calls: new(callCounts), acl: new(aclServer), locks: &lockManager{search: make(chan struct{}, 1)}}
	c.cfg = transport.ClientConfig{Service: "nfs", Observe: c.calls.observe, CallTimeout: opt.CallTimeout, RetryTimeout: opt.RetryTimeout, Responding: opt.Responding, Probe: true, ReservedPort: true, Dial: opt.Dial}
	if opt.Cred != nil {
		c.cfg.Cred = *opt.Cred
	} else {
		c.cfg.Cred = transport.SysCred()
	}
	if err := c.dialProviders(ctx, t); err != nil {
		return nil, fmt.Errorf("connect to %s over %s: %w", t.Addr(), opt.Transport, err)
	}
	// The other connections go to the address that has answered, not to the name again.
	at := c.conns[0].Addr()
	for range max(opt.Conns, 1) - 1 {
		conn, err := c.dial(ctx, at)
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("connect to %s over %s: %w", at, opt.Transport, err)
		}
		c.conns = append(c.conns, newConn(conn))
	}
	if g := c.several(); g != nil {
		g.begin(c.conns, c.locks.leave)
	}
	return c, nil
}

// dialFirst makes the first connection, to the first address of t's host that
// takes it. The Client stays with that address: the hosts of one name need not
// be one server, and the handles of one mean nothing to another.
func (c *Client) dialFirst(ctx context.Context, t Target) error {
	if t.Others != "" {
		g := newGroup(t, c.opt.Moved)
		c.home, c.cfg.Moves, c.cfg.DialTimeout = g, g, oneDialTimeout
		return c.dialGroup(ctx, g)
	}
	hosts, at := []string{t.Host}, &home{name: t.Host}
	c.home = at
	if _, err := netip.ParseAddr(t.Host); err != nil {
		if hosts, err = lookUp(ctx, t.Host); err != nil {
			return &transport.ConnectError{Service: "nfs", Addr: t.Addr(), Err: err}
		}
		c.cfg.Moves = at
	}
	var err error
	for i, host := range hosts {
		t.Host = host
		var first *transport.Client
		if first, err = c.dialShare(ctx, t.Addr(), len(hosts)-i); err == nil {
			at.settle(host)
			c.conns = []*conn{newConn(first)}
			return nil
		}
	}
	return err
}

// dialShare is dial with a fair share of the time that is left, of n addresses.
func (c *Client) dialShare(ctx context.Context, addr string, n int) (*transport.Client, error) {
	if end, ok := ctx.Deadline(); ok && n > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(n))
		defer cancel()
	}
	return c.dial(ctx, addr)
}

func (c *Client) dial(ctx context.Context, addr string) (*transport.Client, error) {
	return c.dialBy(ctx, addr, c.cfg)
}

func (c *Client) dialBy(ctx context.Context, addr string, cfg transport.ClientConfig) (*transport.Client, error) {
	if c.opt.Transport == TCP {
		return transport.DialTCP(ctx, addr, cfg)
	}
	return transport.DialRDMA(ctx, c.opt.Device, addr, cfg)
}

// dialServiceBy connects over TCP to a service other than NFS. It is asked
// once, and so nobody is told when it does not answer.
func dialServiceBy(ctx context.Context, host string, port int, cfg transport.ClientConfig) (*transport.Client, error) {
	cfg.Responding, cfg.Probe, cfg.Observe, cfg.Moves = nil, false, nil, nil
	return transport.DialTCP(ctx, net.JoinHostPort(host, fmt.Sprint(port)), cfg)
}

// Close closes the connections; calls under way fail.
func (c *Client) Close() error {
	errs := []error{c.locks.close()}
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}
