// Checks by RoCE: whether the server accepts a connection, and the kernel's device for it.

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

// checkRoCE connects by RoCE and makes one call. UDP has no cheaper test of a port.
func checkRoCE(ctx context.Context, x *exam) Finding {
	x.roce = true
	c, err := transport.DialRDMA(ctx, roce.Open(rnic.DeviceConfig{}), x.at(x.RDMAPort), x.config("nfs"))
	if err == nil {
		x.rdma = c
		x.keep(c.Close)
		return ok("%d answers by RoCE, over UDP port %d", x.RDMAPort, roce.UDPPort)
	}
	if x.Provider == nfsclient.AutoProvider { // iWARP was tried before
		return x.noRoCE(err)
	}
	if portprobe.Identify(ctx, x.most(portprobe.Wait), x.Dial, x.at(x.RDMAPort), portprobe.MPA).Kind == portprobe.MPA {
		return x.wanted(false, "it speaks iWARP there: leave --rdma roce out, or have it serve both (nfsrdmad serve --rdma iwarp,roce)",
			"%d: no connection by RoCE: %v", x.RDMAPort, plain(err))
	}
	return x.noRoCE(err)
}

// noRoCE returns the finding about a failed RoCE connection.
func (x *exam) noRoCE(err error) Finding {
	var gone *transport.ConnectError
	if errors.As(err, &gone) {
		err = gone.Err
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return x.wanted(false, "a kernel mount can use rxe; nfsrdma itself: --rdma iwarp here, or rdma link delete for the rxe device",
			"UDP port %d of this machine is in use, by the kernel's rxe or another program", roce.UDPPort)
	}
	return x.wanted(false, fmt.Sprintf("have the server serve RoCE there (nfsrdmad serve --rdma roce; Linux with rxe or an adapter), and let UDP port %d through the firewalls both ways",
		roce.UDPPort), "%d: no connection by RoCE: %v", x.RDMAPort, err)
}

// addRXE returns the command that makes a soft-RoCE device on the interface to the server.
func (x *exam) addRXE() string {
	return "modprobe -a rdma_rxe rdma_cm rpcrdma && rdma link add rxe0 type rxe netdev " + x.netdev()
}

// netdev returns the interface to the server, or a usual name if it is unknown.
func (x *exam) netdev() string {
	if x.device == "" {
		return "eth0"
	}
	return x.device
}
