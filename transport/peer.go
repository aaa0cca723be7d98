// What the server keeps of the client of one connection.

package transport

import (
	"net"
	"net/netip"
)

// A peer is where a connection's calls come from.
type peer struct {
	addr  netip.Addr // without the port; not valid for networks that have none
	creds credCache
}

func (p *peer) init(remote net.Addr) {
	if a, ok := remote.(*net.TCPAddr); ok {
		p.addr = a.AddrPort().Addr().Unmap()
	}
}
