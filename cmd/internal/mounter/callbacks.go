// Server callbacks to a mount with waiting lock calls: registered with this machine's rpcbind.

package mounter

import (
	"context"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/transport/portmap"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// withdrawTime limits the unregistration at the end of a mount.
const withdrawTime = 5 * time.Second

// announce registers a mount with rpcbind for the callbacks of lock managers. It fails if callbacks
// already go elsewhere, for example to the kernel's lock manager or another mount.
func announce(ctx context.Context, at netip.AddrPort) (withdraw func(), err error) {
	return register(ctx, nlm4.Program, nlm4.Version, at)
}

// announceMonitor registers a mount for servers' restart notifications, unless this machine has a
// status monitor.
func announceMonitor(ctx context.Context, at netip.AddrPort) (withdraw func(), err error) {
	return register(ctx, nsm.Program, nsm.Version, at)
}

func register(ctx context.Context, program, version uint32, at netip.AddrPort) (withdraw func(), err error) {
	tcp, err := portmap.Register(ctx, portmap.Bindings(program, version, rpcbind.NetTCP, at))
	if err != nil {
		closeRegistrar(tcp)
		return nil, err
	}
	// Few servers call over UDP. If another service, or a killed mount, has the UDP entry, the
	// entry stays.
	udp, _ := portmap.Register(ctx, portmap.Bindings(program, version, rpcbind.NetUDP, at))
	return func() {
		closeRegistrar(tcp)
		closeRegistrar(udp)
	}, nil
}

func closeRegistrar(r *portmap.Registrar) {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTime)
	defer cancel()
	_ = r.Close(ctx) // a stale registration names an unused port; the next mount detects that
}
