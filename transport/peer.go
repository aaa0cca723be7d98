// What the server keeps of the client of one connection.

package transport

import (
	"net"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A peer belongs to the receive loop of its connection.
type peer struct {
	addr   netip.Addr // without the port; not valid for networks that have none
	creds  credCache
	header oncrpc.CallHeader // of the call at hand
}

func (p *peer) init(remote net.Addr) {
	if a, ok := remote.(*net.TCPAddr); ok {
		p.addr = a.AddrPort().Addr().Unmap()
	}
}
