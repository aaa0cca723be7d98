// Checks over RoCE: whether the server accepts a connection, and the kernel's device for RoCE.

package doctor

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/transport"
)

// checkRoCE connects over RoCE and makes one call. A UDP port has no cheaper test.
func checkRoCE(ctx context.Context, cu *checkup) Finding {
	if cu.overTLS() {
		return cu.failIfWanted(false, "take iWARP (--rdma iwarp), TCP (--proto tcp), or Kerberos (--sec krb5p)", "%d: there is no TLS over RoCE", cu.RDMAPort)
	}
	cu.roce = true
	c, err := transport.DialRDMA(ctx, roce.Open(rnic.DeviceConfig{}), cu.portAddr(cu.RDMAPort), cu.config("nfs"))
	if err == nil {
		cu.rdma = c
		cu.atEnd(c.Close)
		return ok("%d answers by RoCE, over UDP port %d", cu.RDMAPort, roce.UDPPort)
	}
	if cu.Provider == nfsclient.AutoProvider { // iWARP was tried before
		return cu.noRoCE(err)
	}
	if portprobe.Identify(ctx, cu.timeLimit(portprobe.Wait), cu.Dial, cu.portAddr(cu.RDMAPort), portprobe.MPA).Kind == portprobe.MPA {
		return cu.failIfWanted(false, "it speaks iWARP there: leave --rdma roce out, or have it serve both (nfsrdmad serve --rdma iwarp,roce)",
			"%d: no connection by RoCE: %v", cu.RDMAPort, innermostError(err))
	}
	return cu.noRoCE(err)
}

// noRoCE returns the finding about a failed RoCE connection.
func (cu *checkup) noRoCE(err error) Finding {
	var gone *transport.ConnectError
	if errors.As(err, &gone) {
		err = gone.Err
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return cu.failIfWanted(false, "a kernel mount can use rxe; nfsrdma itself: --rdma iwarp here, or rdma link delete for the rxe device",
			"UDP port %d of this machine is in use, by the kernel's rxe or another program", roce.UDPPort)
	}
	return cu.failIfWanted(false, fmt.Sprintf("have the server serve RoCE there (nfsrdmad serve --rdma roce; Linux with rxe or an adapter), and let UDP port %d through the firewalls both ways",
		roce.UDPPort), "%d: no connection by RoCE: %v", cu.RDMAPort, err)
}

// addRXE returns the command that makes a soft-RoCE device on the interface to the server.
func (cu *checkup) addRXE() string {
	return "modprobe -a rdma_rxe rdma_cm rpcrdma && rdma link add rxe0 type rxe netdev " + cu.netdev()
}

// netdev returns the interface to the server, or a usual name if it is unknown.
func (cu *checkup) netdev() string {
	if cu.device == "" {
		return "eth0"
	}
	return cu.device
}
