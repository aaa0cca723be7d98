// The Client: connections to one server.

package nfsclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// Options configures a Client. The zero value suits most uses.
type Options struct {
	Transport Transport // the zero value is RDMA

	// Conns is the number of connections for calls; 0: 1. With several, the first connection
	// carries at most one transfer's payload, so that a small call queues behind at most one
	// transfer.
	Conns int

	// MountPort is the TCP port of the server's MOUNT service. 0: Mount tries the NFS connection
	// itself, then the port from rpcbind.
	MountPort int
	// MountHost is the host of the MOUNT service, at MountPort or at the port from that host's
	// rpcbind. "": the server.
	MountHost string

	// LockPort is the TCP port of the server's lock manager. 0: the first lock tries the NFS
	// connection, then the port from rpcbind.
	LockPort int

	// Cred are the caller's credentials; nil: AUTH_SYS of this process.
	Cred *transport.Cred

	// Sec are the security flavors to use; nil: any. Mount uses the first flavor of the server's
	// list for the export that is in Sec and usable.
	Sec []oncrpc.Flavor
	// GSS returns the credentials of calls with a flavor of Kerberos to a server, as it is named in
	// the address. An error makes Mount try the next flavor. nil: no Kerberos.
	GSS func(f oncrpc.Flavor, server string) (*transport.Auth, error)
	// TLS returns the TLS configuration for connections to a server, as it is named in the address.
	// The server must then have TLS on its NFS port; for RDMA the session is below iWARP, and the
	// server this project's. nil: no TLS.
	TLS func(server string) *tls.Config

	// CallTimeout bounds one call with all its retransmissions; 0: 60 s. transport.Hard: only the
	// call's context bounds it, as in a hard mount.
	CallTimeout time.Duration

	// RetryTimeout is the longest silence of the server while calls wait. Then the client
	// reconnects and retransmits these calls. 0: 20 s, or a third of CallTimeout.
	RetryTimeout time.Duration

	// Responding, if set, is called with false after some seconds without a reply while calls wait,
	// and with true when the server answers again. Each connection calls it separately. It must not
	// block.
	Responding func(bool)

	// Moved, if set, is called for one of several servers ("host:port") when the Client switches to
	// it. With an error, the server answers but the Client does not use it. It must not block.
	Moved func(server string, err error)

	// ReadSize and WriteSize bound one READ and one WRITE in bytes; 0: the limits of client and
	// server.
	ReadSize, WriteSize int

	// Device is the RNIC for RDMA. nil: a private one with Provider, CRC and BlockThreads
	// (rnic.DeviceConfig).
	Device       *rnic.Device
	Provider     Provider
	CRC          rnic.CRCMode
	BlockThreads bool

	// Dial makes TCP connections, for example through a proxy. nil: a net.Dialer, from a port below
	// 1024 if this process may use one. The Device dials for RDMA.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// maxConns bounds Options.Conns.
const maxConns = 64

// A Client has one or several connections to one server. It is safe for concurrent use. Its methods
// are the NFSv3 procedures on handles.
type Client struct {
	// set once; the pointers are shared with all Clients from As
	server location // one address for all connections, even if the server's name has several
	cfg    transport.ClientConfig
	opt    Options
	conns  []*conn
	host   string          // the server's name as given; of several servers the first
	auth   *transport.Auth // the caller's credentials for NFS calls; nil: opt.Cred
	other  *transport.Auth // for calls on other connections, if auth is not AUTH_SYS; nil: opt.Cred
	flavor oncrpc.Flavor   // of auth
	secure *secureClients
	turn   *atomic.Uint32 // selects the next connection
	calls  *callCounts
	acl    *aclServer
	locks  *lockManager

	foreign bool // the RNIC is Options.Device, so its provider is unknown
}

// As returns a Client for other credentials on the same connections. Close on either Client closes
// them. Make one Client for each caller and keep it: its calls cost the same as calls of c.
func (c *Client) As(cred transport.Cred) *Client {
	as := *c
	as.auth, as.other, as.flavor = transport.NewAuth(cred), nil, cred.Flavor
	return &as
}

// Dial connects to addr: HOST:PORT, or HOST with the transport's default port. Commas separate
// several servers of one volume. The Client uses one responding server. If this server fails, the
// Client switches to another server with the same handles for the mounted directories. Close closes
// all connections.
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
	c := &Client{opt: opt, host: t.Host, turn: new(atomic.Uint32), calls: new(callCounts), acl: new(aclServer), secure: new(secureClients), locks: &lockManager{search: make(chan struct{}, 1)}}
	c.cfg = transport.ClientConfig{Service: "nfs", Observe: c.calls.observe, CallTimeout: opt.CallTimeout, RetryTimeout: opt.RetryTimeout, Responding: opt.Responding, Probe: true, ReservedPort: true, Dial: opt.Dial}
	if opt.Cred != nil {
		c.cfg.Cred = *opt.Cred
	} else {
		c.cfg.Cred = transport.SysCred()
	}
	c.flavor = c.cfg.Cred.Flavor
	if c.cfg.TLS, err = opt.tlsOf(t); err != nil {
		return nil, err
	}
	if err := c.dialProviders(ctx, t); err != nil {
		return nil, fmt.Errorf("connect to %s over %s: %w", t.Addr(), opt.Transport, err)
	}
	// The other connections use the first one's address instead of resolving the name again.
	at := c.conns[0].Addr()
	for range max(opt.Conns, 1) - 1 {
		conn, err := c.dial(ctx, at)
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("connect to %s over %s: %w", at, opt.Transport, err)
		}
		c.conns = append(c.conns, newConn(conn))
	}
	if g := c.group(); g != nil {
		g.begin(c.conns, c.locks.leave)
	}
	return c, nil
}

// dialFirst makes the first connection, to the first responding address of t's host. The Client
// keeps that address: the hosts of one name may be different servers, which do not understand each
// other's handles.
func (c *Client) dialFirst(ctx context.Context, t Target) error {
	if t.Others != "" {
		g := newGroup(t, c.opt.Moved)
		c.server, c.cfg.Moves, c.cfg.DialTimeout = g, g, oneDialTimeout
		return c.dialGroup(ctx, g)
	}
	hosts, at := []string{t.Host}, &namedServer{name: t.Host}
	c.server = at
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

// dialShare is dial with an equal share of the remaining time for n addresses.
func (c *Client) dialShare(ctx context.Context, addr string, n int) (*transport.Client, error) {
	if end, ok := ctx.Deadline(); ok && n > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(n))
		defer cancel()
	}
	return c.dial(ctx, addr)
}

// dial connects to addr with the Client's configuration.
func (c *Client) dial(ctx context.Context, addr string) (*transport.Client, error) {
	return c.dialBy(ctx, addr, c.cfg)
}

// dialBy connects to addr, HOST:PORT, over the Client's transport.
func (c *Client) dialBy(ctx context.Context, addr string, cfg transport.ClientConfig) (*transport.Client, error) {
	if c.opt.Transport == TCP {
		return transport.DialTCP(ctx, addr, cfg)
	}
	return transport.DialRDMA(ctx, c.opt.Device, addr, cfg)
}

// dialServiceBy connects over TCP to a service other than NFS, for one call. It does not call
// Options.Responding.
func (c *Client) dialServiceBy(ctx context.Context, host string, port int, cfg transport.ClientConfig) (*transport.Client, error) {
	cfg.Responding, cfg.Probe, cfg.Observe, cfg.Moves = nil, false, nil, nil
	return c.dialOther(ctx, host, port, cfg)
}

// Close closes the connections; calls in flight fail.
func (c *Client) Close() error {
	errs := []error{c.locks.close()}
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}
