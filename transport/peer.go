// What the server keeps of the client of one connection.

package transport

import (
	"net"
	"net/netip"
)

// A peer is where a connection's calls come from.
type peer struct {
	addr  netip.Addr // without the port; not valid for networks that have none
	owner Owner      // set before the first call
	creds credCache
}

func (p *peer) init(remote net.Addr) { p.addr = addrOf(remote) }

// client is who the peer is when workers are shared out.
func (p *peer) client() clientKey { return clientKey{hostPrefix(p.addr), p.owner} }

// addrOf is the address of a peer; not valid for networks that have none.
func addrOf(remote net.Addr) netip.Addr {
	a, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return a.AddrPort().Addr().Unmap()
}
