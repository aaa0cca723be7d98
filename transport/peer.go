// What the server keeps of the client of one connection.

package transport

import (
	"net"
	"net/netip"
	"sync/atomic"
)

// A peer is where a connection's calls come from.
type peer struct {
	addr   netip.Addr // without the port; not valid for networks that have none
	owner  Owner      // set before the first call
	origin *origin
	creds  credCache
	memo   *atomic.Value // Call.Memo; nil where calls of several clients come by one socket
}

func (p *peer) init(remote net.Addr) {
	p.addr = addrOf(remote)
	p.origin = &origin{remote: addrPortOf(remote)}
}

// client is who the peer is when workers are shared out.
func (p *peer) client() clientKey { return clientKey{hostPrefix(p.addr), p.owner} }

// addrOf is the address of a peer; not valid for networks that have none. What counts and remembers
// calls by address has no bounds there, and takes no copy of a call for one.
func addrOf(remote net.Addr) netip.Addr { return addrPortOf(remote).Addr().Unmap() }

// addrPortOf is the address and port of an end; not valid for networks that have none.
func addrPortOf(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort()
	case *net.UDPAddr: // RoCE
		return a.AddrPort()
	}
	return netip.AddrPort{}
}
