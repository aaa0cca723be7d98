// Telling the server's host that this machine has started again.

package nfsclient

import (
	"context"
	"net"
	"net/netip"
	"strconv"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
)

// NotifyRestart tells the status monitor of the server (NSM, SM_NOTIFY) that this machine, which it knows by a name, has started
// again: it frees all locks that the machine has there, of the kernel's mounts, too. state is odd, and larger than that of the last time.
// Servers believe it of root alone, by a reserved port: without one it fails.
func (c *Client) NotifyRestart(ctx context.Context, name string, state int32) error {
	port, err := c.getPort(ctx, nsm.Program, nsm.Version)
	if err != nil {
		if port = c.tcpPort(); port == 0 { // ours has it on the ports of NFS, whether or not rpcbind knows
			return err
		}
	}
	cfg := c.cfg
	cfg.ReservedOnly = true
	conn, err := c.dialServiceBy(ctx, port, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	p := transport.Proc{Prog: nsm.Program, Vers: nsm.Version, Proc: nsm.ProcNotify, Name: "SM_NOTIFY"}
	return conn.Call(ctx, &p, &nsm.StatChange{Name: []byte(name), State: state}, void{}, nil, 0)
}

// tcpPort is a port where the server serves its programs over TCP, as far as that is known.
func (c *Client) tcpPort() int {
	if c.opt.Transport != TCP {
		return c.opt.MountPort
	}
	_, port, err := net.SplitHostPort(c.conns[0].Figures().Addr)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(port)
	return n
}

// ServerAddress is the address of the server, without a port, as the kernel writes it: an IPv6 address can be written in many ways.
func (c *Client) ServerAddress() string {
	host := c.home.address()
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	return host
}
