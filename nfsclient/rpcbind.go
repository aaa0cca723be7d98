// Asking the host's port mapper where a service is.

package nfsclient

import (
	"context"

	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// getPort returns the TCP port of a program on the server's host.
func (c *Client) getPort(ctx context.Context, prog, vers uint32) (int, error) {
	return c.getPortAt(ctx, c.home.address(), prog, vers)
}

// getPortAt is getPort of another address.
func (c *Client) getPortAt(ctx context.Context, host string, prog, vers uint32) (int, error) {
	conn, err := dialServiceBy(ctx, host, rpcbind.Port, c.cfg)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	port, err := conn.PortOf(ctx, prog, vers)
	return int(port), err
}
