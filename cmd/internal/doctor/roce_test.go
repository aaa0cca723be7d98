// Whole runs against a RoCE server, and on a machine that cannot use RoCE.

package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
)

// serveRoCE serves programs over RoCE on a port of addr where no TCP server listens. At the usual
// port one may listen: a server in another package's test may use all addresses.
func serveRoCE(t *testing.T, addr string, programs ...*transport.Program) (port int) {
	t.Helper()
	port = machine.Port(t)
	s := transport.NewServer(transport.ServerConfig{}, programs...)
	dev := roce.Open(rnic.DeviceConfig{})
	l, err := dev.Listen("udp", fmt.Sprint(addr, ":", port))
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	done := make(chan error)
	go func() { done <- s.ServeRDMA(dev, l) }()
	t.Cleanup(func() {
		s.Shutdown(context.Background())
		<-done
	})
	return port
}

// TestRoCE: if requested, or because nothing answers over iWARP, the checks and command lines use
// RoCE.
func TestRoCE(t *testing.T) {
	programs, _ := tree(t, 0, false)
	addr := machine.Addr(t).String()
	port, tcp := serveRoCE(t, addr, programs...), machine.Port(t)
	for _, p := range []nfsclient.Provider{nfsclient.RoCE, nfsclient.AutoProvider} {
		t.Run(p.String(), func(t *testing.T) {
			r := examine(t, Options{Host: addr, RDMAPort: port, TCPPort: tcp, Provider: p, Root: t.TempDir()}, true, map[string]wanted{
				portRDMA:     {OK, fmt.Sprint(port, " answers by RoCE, over UDP port 4791")},
				startUp:      {OK, "RoCE"},
				rpcRDMA:      {OK, "credits"},
				programsRDMA: {OK, "NFS 3"},
				mntCheck:     {OK, ""},
				deviceCheck:  {Warn, "type rxe"},
				moduleCheck:  {Warn, "rdma_rxe"},
			})
			want := fmt.Sprintf("nfsrdma mount -o rdma=roce,port=%d %s:/m /mnt", port, addr)
			if len(r.Mount) == 0 || r.Mount[0] != want {
				t.Errorf("command lines %q, want %q first", r.Mount, want)
			}
		})
	}
	r := examine(t, Options{Host: addr, RDMAPort: port, TCPPort: tcp, Root: t.TempDir()}, false, map[string]wanted{portRDMA: {Fail, fmt.Sprint(port)}, deviceCheck: {Warn, "type siw"}})
	if strings.Contains(fmt.Sprint(r.Mount), "roce") {
		t.Errorf("command lines %q of iWARP", r.Mount)
	}
}

// TestRoCEPortInUse: if another program on this machine has the UDP port, the finding says so. ::1
// has no alternative source address, unlike 127.0.0.1.
func TestRoCEPortInUse(t *testing.T) {
	c, err := net.ListenPacket("udp6", fmt.Sprintf("[::1]:%d", roce.UDPPort))
	switch {
	case err == nil:
		defer c.Close()
	case errors.Is(err, syscall.EADDRINUSE): // another program already has the port, which this test needs anyway
	default:
		t.Fatal("this test needs IPv6 on the loopback interface: ", err)
	}
	examine(t, Options{Host: "::1", Provider: nfsclient.RoCE, Root: t.TempDir()}, false, map[string]wanted{
		portRDMA: {Fail, "UDP port 4791 of this machine is in use"},
		rpcRDMA:  {Skip, ""},
	})
	examine(t, Options{Host: "::1", Provider: nfsclient.AutoProvider, RDMAPort: machine.Port(t), Root: t.TempDir()}, false, map[string]wanted{
		portRDMA:    {Fail, "connection refused); by RoCE: UDP port 4791 of this machine is in use"},
		deviceCheck: {Warn, "type siw"},
	})
}
