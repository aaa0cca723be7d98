// The Client: connections to one server.

package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
)

// Options is how a Client behaves. The zero value is right for most.
type Options struct {
	Transport Transport // RDMA unless said otherwise

	// Conns is the number of connections that calls are spread over; 0: 1.
	Conns int

	// MountPort is the TCP port of the server's MOUNT service. 0: MOUNT is asked
	// for on the NFS connection itself, then at the port that rpcbind names.
	MountPort int

	// Cred is who calls; nil: AUTH_SYS as this process.
	Cred *transport.Cred

	// Device is the RNIC for RDMA; nil: one of our own with this CRC mode.
	Device *rnic.Device
	CRC    rnic.CRCMode
}

// maxConns bounds Options.Conns.
const maxConns = 64

// A Client is a connection, or several, to one server. It is safe for
// concurrent use; its methods are the procedures of NFSv3 on handles.
type Client struct {
	// set once
	host  string
	cfg   transport.ClientConfig
	opt   Options
	conns []*transport.Client

	turn atomic.Uint32 // which connection is next
}

// Dial connects to addr, HOST:PORT or HOST, whose port is then the transport's
// default. Close gives everything back.
func Dial(ctx context.Context, addr string, opt Options) (*Client, error) {
	t, err := ParseServer(addr)
	if err != nil {
		return nil, err
	}
	t.Transport = opt.Transport
	if opt.Conns < 0 || opt.Conns > maxConns {
		return nil, fmt.Errorf("%d connections: not in 1..%d", opt.Conns, maxConns)
	}
	c := &Client{host: t.Host, opt: opt}
	if opt.Cred != nil {
		c.cfg.Cred = *opt.Cred
	} else {
		c.cfg.Cred = transport.SysCred()
	}
	if opt.Transport == RDMA && opt.Device == nil {
		c.opt.Device = rnic.Open(rnic.DeviceConfig{CRC: opt.CRC})
	}
	for range max(opt.Conns, 1) {
		conn, err := c.dial(ctx, t.Addr())
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("connect to %s over %s: %w", t.Addr(), opt.Transport, err)
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

func (c *Client) dial(ctx context.Context, addr string) (*transport.Client, error) {
	if c.opt.Transport == TCP {
		return transport.DialTCP(ctx, addr, c.cfg)
	}
	return transport.DialRDMA(ctx, c.opt.Device, addr, c.cfg)
}

// dialService connects over TCP to another service of the same host.
func (c *Client) dialService(ctx context.Context, port int) (*transport.Client, error) {
	return transport.DialTCP(ctx, net.JoinHostPort(c.host, fmt.Sprint(port)), c.cfg)
}

// Close closes the connections; calls under way fail.
func (c *Client) Close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}
