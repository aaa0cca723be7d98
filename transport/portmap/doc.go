// The sides of rpcbind: serving as a port mapper, registering with one, and asking one.

// Package portmap lets clients find this machine's programs by rpcbind (RFC 1833), port 111.
//
// A Table is our own port mapper, for machines and containers without one. A Registrar registers
// programs with the machine's rpcbind, and registers them again after rpcbind restarts. A Mapper
// asks any machine's rpcbind where programs are, and Broadcast calls a program on all machines of a
// network. The package serves any RPC program, and knows nothing of NFS.
package portmap

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// Bindings returns one program's bindings at one address, by the transport "tcp", "udp" or "rdma".
// The unspecified IPv6 address also accepts IPv4 callers, so it gets an IPv4 binding, too.
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

// A service is a Binding's key.
type service struct {
	prog, vers uint32
	netid      string
}

func serviceOf(b *rpcbind.Binding) service { return service{b.Prog, b.Vers, b.Netid} }
