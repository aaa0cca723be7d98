// Asking the host's port mapper where a service is (RFC 1833 §3, version 2).

package nfsclient

import (
	"context"
	"fmt"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

var getPortProc = transport.Proc{Prog: rpcbind.Program, Vers: rpcbind.Version, Proc: rpcbind.ProcGetport, Name: "PMAPPROC_GETPORT", MaxReply: 4}

// getPort returns the TCP port of a program on the server's host.
func (c *Client) getPort(ctx context.Context, prog, vers uint32) (int, error) {
	conn, err := c.dialService(ctx, rpcbind.Port)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var res rpcbind.PortRes
	if err := conn.Call(ctx, &getPortProc, &rpcbind.Mapping{Prog: prog, Vers: vers, Prot: rpcbind.TCP}, &res, nil, 0); err != nil {
		return 0, err
	}
	if res.Port == 0 || res.Port > 65535 {
		return 0, fmt.Errorf("program %d version %d is not registered", prog, vers)
	}
	return int(res.Port), nil
}
