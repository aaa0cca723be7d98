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

// NotifyRestart tells the status monitor of a server (NSM, SM_NOTIFY), by its address ("": this
// one), that this machine, which it knows by a name, has started again: it frees all locks that the
// machine has there, of the kernel's mounts, too. state is odd, and larger than that of the last
// time. Servers believe it of root alone, by a reserved port: without one it fails.
func (c *Client) NotifyRestart(ctx context.Context, server, name string, state int32) error {
	if server == "" {
		server = c.home.address()
	}
	news := &nsm.StatChange{Name: []byte(name), State: state}
	// Ours has it on the ports of NFS, whatever rpcbind says: that of its machine may know the
	// status monitor of another, such as a mount's there.
	if port := c.tcpPort(); port != 0 && c.notify(ctx, server, port, news) == nil {
		return nil
	}
	port, err := c.getPortAt(ctx, server, nsm.Program, nsm.Version)
	if err != nil {
		return err
	}
	return c.notify(ctx, server, port, news)
}

// notify calls a status monitor at a port.
func (c *Client) notify(ctx context.Context, server string, port int, news *nsm.StatChange) error {
	cfg := c.cfg
	cfg.ReservedOnly = true
	conn, err := dialServiceBy(ctx, server, port, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	p := transport.Proc{Prog: nsm.Program, Vers: nsm.Version, Proc: nsm.ProcNotify, Name: "SM_NOTIFY"}
	return conn.Call(ctx, &p, news, void{}, nil, 0)
}

// tcpPort is a port where the server serves its programs over TCP, as far as that is known.
func (c *Client) tcpPort() int {
	if c.opt.Transport != TCP {
		if c.opt.MountHost != "" {
			return 0 // the port is another host's
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

// ServerAddress is the address of the server, without a port, as the kernel writes it: an IPv6
// address can be written in many ways. Of several servers it is the one that calls go to, or went
// to last, not one that is being tried.
func (c *Client) ServerAddress() string {
	host := c.home.address()
	if g := c.several(); g != nil {
		host = g.inUse()
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	return host
}
