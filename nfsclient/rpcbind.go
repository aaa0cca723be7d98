// Asking the host's port mapper where a service is (RFC 1833 §3, version 2).

package nfsclient

import (
	"context"
	"fmt"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
)

const (
	pmapPort = 111
	protoTCP = 6
)

var pmapGetPort = transport.Proc{Prog: 100000, Vers: 2, Proc: 3, Name: "PMAPPROC_GETPORT", MaxReply: 4}

// A pmapMapping is the arguments of GETPORT: program, version, protocol, and a port that is not looked at.
type pmapMapping struct{ prog, vers, prot, port uint32 }

func (m *pmapMapping) EncodeXDR(e *xdr.Encoder) {
	e.Uint32(m.prog)
	e.Uint32(m.vers)
	e.Uint32(m.prot)
	e.Uint32(m.port)
}

// A pmapAnswer is the port, 0 for none.
type pmapAnswer uint32

func (p *pmapAnswer) DecodeXDR(d *xdr.Decoder) { *p = pmapAnswer(d.Uint32()) }

// getPort returns the TCP port of a program on the server's host.
func (c *Client) getPort(ctx context.Context, prog, vers uint32) (int, error) {
	conn, err := c.dialService(ctx, pmapPort)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var port pmapAnswer
	if err := conn.Call(ctx, &pmapGetPort, &pmapMapping{prog: prog, vers: vers, prot: protoTCP}, &port, nil, 0); err != nil {
		return 0, err
	}
	if port == 0 || port > 65535 {
		return 0, fmt.Errorf("program %d version %d is not registered", prog, vers)
	}
	return int(port), nil
}
