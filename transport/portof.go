// Asking a host's port mapper where a program is.

package transport

import (
	"context"
	"fmt"

	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

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
