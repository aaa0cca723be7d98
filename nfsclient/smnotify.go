// Notifying the server's host of this machine's restart.

package nfsclient

import (
	"context"
	"net"
	"net/netip"
	"strconv"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
)

// NotifyRestart sends SM_NOTIFY to the status monitor (NSM) of the server at an address; "": this
// Client's. name is this machine's name there. The monitor then frees all its locks, including
// those of kernel mounts. state is odd, and larger than at the last restart. Servers accept the
// call only from a reserved port, which needs root: without such a port the call fails.
func (c *Client) NotifyRestart(ctx context.Context, server, name string, state int32) error {
	if server == "" {
		server = c.server.address()
	}
	news := &nsm.StatChange{Name: []byte(name), State: state}
	// Our server has its monitor on its NFS ports. Try these ports before rpcbind, which may list
	// another monitor on that machine, such as a mount's.
	if port := c.tcpPort(); port != 0 && c.notify(ctx, server, port, news) == nil {
		return nil
	}
	port, err := c.getPortAt(ctx, server, nsm.Program, nsm.Version)
	if err != nil {
		return err
	}
	return c.notify(ctx, server, port, news)
}

// notify calls the status monitor at a port.
func (c *Client) notify(ctx context.Context, server string, port int, news *nsm.StatChange) error {
	cfg := c.cfg
	cfg.ReservedOnly = true
	conn, err := c.dialServiceBy(ctx, server, port, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	p := transport.Proc{Prog: nsm.Program, Vers: nsm.Version, Proc: nsm.ProcNotify, Name: "SM_NOTIFY"}
	return conn.Call(ctx, &p, news, void{}, nil, 0)
}

// tcpPort returns a TCP port that serves all the server's programs, or 0 if unknown.
func (c *Client) tcpPort() int {
	if c.opt.Transport != TCP {
		if c.opt.MountHost != "" {
			return 0 // the MOUNT port belongs to another host
		}
		return c.opt.MountPort
	}
	_, port, err := net.SplitHostPort(c.conns[0].Figures().Addr)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(port)
	return n
}

// ServerAddress returns the server's address without a port, in the kernel's spelling, because an
// IPv6 address has several. With several servers it is the last server used for calls, not one
// being tried.
func (c *Client) ServerAddress() string {
	host := c.server.address()
	if g := c.group(); g != nil {
		host = g.inUse()
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	return host
}
