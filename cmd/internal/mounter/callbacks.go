// Having servers call a mount whose programs wait for locks: by this machine's rpcbind.

package mounter

import (
	"context"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/portmap"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// withdrawTime bounds what rpcbind can take at the end of a mount.
const withdrawTime = 5 * time.Second

// announce has rpcbind send the callbacks of lock managers to a mount. One that sends them elsewhere, such as to the kernel's lock
// manager or to another mount, goes on doing so: then it fails.
func announce(ctx context.Context, at netip.AddrPort) (withdraw func(), err error) {
	return register(ctx, nlm4.Program, nlm4.Version, at)
}

// announceMonitor has rpcbind send there what servers tell of their restarts, unless this machine has a status monitor.
func announceMonitor(ctx context.Context, at netip.AddrPort) (withdraw func(), err error) {
	return register(ctx, nsm.Program, nsm.Version, at)
}

func register(ctx context.Context, program, version uint32, at netip.AddrPort) (withdraw func(), err error) {
	tcp, err := portmap.Register(ctx, portmap.Bindings(program, version, rpcbind.NetTCP, at))
	if err != nil {
		closeRegistrar(tcp)
		return nil, err
	}
	// Servers that call over UDP are few: where that is somebody else's, or of a mount that was killed, it stays so.
	udp, _ := portmap.Register(ctx, portmap.Bindings(program, version, rpcbind.NetUDP, at))
	return func() {
		closeRegistrar(tcp)
		closeRegistrar(udp)
	}, nil
}

func closeRegistrar(r *portmap.Registrar) {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTime)
	defer cancel()
	_ = r.Close(ctx) // a registration that is left is of a port that nobody serves, which the next mount finds out
}
