// Asking a host's port mapper for a service's port.

package nfsclient

import (
	"context"

	"github.com/nfsrdma/nfsrdma/transport/portmap"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// getPort returns a program's TCP port on the server's host.
func (c *Client) getPort(ctx context.Context, prog, vers uint32) (int, error) {
	return c.getPortAt(ctx, c.server.address(), prog, vers)
}

// getPortAt is getPort for another host.
func (c *Client) getPortAt(ctx context.Context, host string, prog, vers uint32) (int, error) {
	conn, err := c.dialServiceBy(ctx, host, rpcbind.Port, c.cfg)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	port, err := portmap.New(conn, "tcp").Port(ctx, prog, vers)
	return int(port), err
}
