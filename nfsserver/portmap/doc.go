// The two sides of rpcbind: being it, and being known to it.

// Package portmap has clients find the programs of this machine by rpcbind (RFC 1833), port 111.
//
// A Table is a port mapper of our own, for machines and containers that have none. A Registrar has
// programs known to the rpcbind that a machine has, and keeps them known when that is started anew.
package portmap

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// Bindings are those of one program at one address, by the transports "tcp", "udp" or
// "rdma": also for IPv4 where the address is all of IPv6, which has IPv4 callers too.
func Bindings(prog, vers uint32, transport string, at netip.AddrPort) []rpcbind.Binding {
	v4 := rpcbind.Binding{Prog: prog, Vers: vers, Netid: transport, Addr: rpcbind.UniversalAddr(at)}
	if at.Addr().Unmap().Is4() {
		return []rpcbind.Binding{v4}
	}
	v6 := v4
	v6.Netid += "6"
	v6.Addr = rpcbind.UniversalAddr(netip.AddrPortFrom(at.Addr().WithZone(""), at.Port()))
	if !at.Addr().IsUnspecified() {
		return []rpcbind.Binding{v6}
	}
	v4.Addr = rpcbind.UniversalAddr(netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()))
	return []rpcbind.Binding{v4, v6}
}

// A service is what a Binding is of.
type service struct {
	prog, vers uint32
	netid      string
}

func serviceOf(b *rpcbind.Binding) service { return service{b.Prog, b.Vers, b.Netid} }
