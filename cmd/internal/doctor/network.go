// Checks of the path to the server: name, route, ports.

package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// pickTime limits the choice among several addresses.
const pickTime = time.Second

// checkName resolves the name and picks the address to examine.
func checkName(ctx context.Context, cu *checkup) Finding {
	if _, err := netip.ParseAddr(cu.Host); err == nil {
		cu.addr = cu.Host
		return ok("%s is an address", cu.Host)
	}
	addrs, err := cu.Lookup(ctx, "ip", cu.Host)
	if err == nil && len(addrs) == 0 {
		err = errors.New("no address")
	}
	if err != nil {
		text := err.Error()
		var dns *net.DNSError
		if errors.As(err, &dns) {
			text = dns.Err
		}
		return fail("check the spelling, /etc/hosts and /etc/resolv.conf, or give the server's address", "%s does not resolve: %s", cu.Host, text)
	}
	hosts := make([]string, len(addrs))
	for i, a := range addrs {
		hosts[i] = a.Unmap().String()
	}
	cu.addr = hosts[0]
	if len(hosts) == 1 {
		return ok("%s is %s", cu.Host, cu.addr)
	}
	up := cu.answeringHosts(ctx, hosts)
	for i := len(hosts) - 1; i >= 0; i-- {
		if up[i] {
			cu.addr = hosts[i]
		}
	}
	for i := range hosts {
		if !up[i] && cu.addr != hosts[i] {
			return warn("take the address out of the name service, or have the server listen there: clients may try it first",
				"%s is %s; no NFS port answers at %s; %s is examined", cu.Host, strings.Join(hosts, " and "), hosts[i], cu.addr)
		}
	}
	return ok("%s is %s; %s is examined", cu.Host, strings.Join(hosts, " and "), cu.addr)
}

// answeringHosts reports for each address whether one of the NFS ports accepts connections.
func (cu *checkup) answeringHosts(ctx context.Context, hosts []string) []bool {
	ctx, cancel := context.WithTimeout(ctx, cu.timeLimit(pickTime))
	defer cancel()
	ports := []int{cu.RDMAPort, cu.TCPPort}
	open := make([]bool, len(hosts)*len(ports))
	var wg sync.WaitGroup
	for i := range open {
		wg.Go(func() {
			c, err := cu.Dial(ctx, "tcp", net.JoinHostPort(hosts[i/len(ports)], fmt.Sprint(ports[i%len(ports)])))
			if open[i] = err == nil; err == nil {
				c.Close()
			}
		})
	}
	wg.Wait()
	up := make([]bool, len(hosts))
	for i, o := range open {
		up[i/len(ports)] = up[i/len(ports)] || o
	}
	return up
}

// checkRoute requests the route from the kernel. No packet is sent.
func checkRoute(ctx context.Context, cu *checkup) Finding {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", cu.portAddr(cu.RDMAPort))
	if err != nil {
		return fail("check the addresses and routes of this machine (ip addr, ip route get "+cu.addr+")", "no way to %s: %s", cu.addr, innermostError(err))
	}
	defer c.Close()
	local := c.LocalAddr().(*net.UDPAddr).IP
	from, _ := netip.AddrFromSlice(local)
	cu.local = from.Unmap()
	ifs, _ := net.Interfaces()
	for _, i := range ifs {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if n, isNet := a.(*net.IPNet); isNet && n.IP.Equal(local) || i.Flags&net.FlagLoopback != 0 && local.IsLoopback() {
				cu.device, cu.mtu = i.Name, i.MTU
			}
		}
	}
	switch {
	case cu.device == "":
		return ok("from %s", local)
	case cu.mtu < 1280:
		return warn("raise it with ip link set "+cu.device+" mtu 1500 if the network allows", "from %s on %s, whose MTU is only %d", local, cu.device, cu.mtu)
	}
	return ok("from %s on %s, MTU %d", local, cu.device, cu.mtu)
}

// checkRDMAPort identifies the service on the RDMA port, by the provider that the user wants.
func checkRDMAPort(ctx context.Context, cu *checkup) Finding {
	if cu.Provider == nfsclient.RoCE {
		return checkRoCE(ctx, cu)
	}
	first, cancel := ctx, context.CancelFunc(func() {})
	if cu.Provider == nfsclient.AutoProvider {
		// the rest of the time is for RoCE
		first, cancel = context.WithTimeout(ctx, cu.timeLimit(checkTime/2))
	}
	defer cancel()
	cu.rdmaPort = portprobe.Identify(first, cu.timeLimit(portprobe.Wait), cu.Dial, cu.portAddr(cu.RDMAPort), portprobe.MPA)
	if cu.rdmaPort.Kind == portprobe.MPA {
		return ok("%d answers, and speaks iWARP", cu.RDMAPort)
	}
	text := describePort(cu.rdmaPort)
	if cu.Provider == nfsclient.AutoProvider {
		f := checkRoCE(ctx, cu)
		if f.Status == OK {
			return f
		}
		cu.roce = false
		text += "; by RoCE: " + f.Text
	}
	advice := "this is the TCP port: the RDMA port is usually 20049"
	if cu.rdmaPort.Kind != portprobe.RPC {
		advice = cu.closedAdvice(ctx, cu.rdmaPort.Kind, cu.RDMAPort, "have the server serve RDMA there (nfsrdmad serve; with Linux: echo rdma 20049 > /proc/fs/nfsd/portlist)")
	}
	return cu.failIfWanted(false, advice, "%d: %s", cu.RDMAPort, text)
}

// checkTCPPort identifies the service on the TCP port.
func checkTCPPort(ctx context.Context, cu *checkup) Finding {
	cu.tcpPort = portprobe.Identify(ctx, cu.timeLimit(portprobe.Wait), cu.Dial, cu.portAddr(cu.TCPPort), portprobe.RPC)
	if cu.tcpPort.Kind == portprobe.RPC {
		return ok("%d answers, and speaks ONC RPC", cu.TCPPort)
	}
	advice := "this is the RDMA port: the TCP port is usually 2049"
	if cu.tcpPort.Kind != portprobe.MPA {
		advice = cu.closedAdvice(ctx, cu.tcpPort.Kind, cu.TCPPort, "have the server serve NFS over TCP there, if it is wanted: the kernel's mount needs a MOUNT service over TCP in any case")
	}
	return cu.failIfWanted(true, advice, "%d: %s", cu.TCPPort, describePort(cu.tcpPort))
}

// checkBindPort checks whether rpcbind is reachable. Only kernel mounts need it, for ports missing
// in their options.
func checkBindPort(ctx context.Context, cu *checkup) Finding {
	cu.bindPort = portprobe.Identify(ctx, cu.timeLimit(portprobe.Wait), cu.Dial, cu.portAddr(cu.BindPort), portprobe.RPC)
	if cu.bindPort.Kind == portprobe.RPC {
		return ok("%d answers", cu.BindPort)
	}
	return warn("give mount the ports, as in the command below", "%d: %s", cu.BindPort, describePort(cu.bindPort))
}

// describePort describes the service on a port. If the network itself refuses, the system's error
// is quoted.
func describePort(r portprobe.Result) string {
	var timeout interface{ Timeout() bool }
	if r.Kind == portprobe.Filtered && !errors.Is(r.Err, context.Canceled) && (!errors.As(r.Err, &timeout) || !timeout.Timeout()) {
		return "out of reach: " + innermostError(r.Err)
	}
	return r.Kind.String()
}

// closedAdvice returns the advice about a port with no service or with another service.
func (cu *checkup) closedAdvice(ctx context.Context, k portprobe.Kind, port int, serve string) string {
	switch k {
	case portprobe.Refused:
		return cu.refusedAdvice(ctx, port, serve)
	case portprobe.Filtered:
		return fmt.Sprintf("let TCP port %d through the firewalls of the server and between, and see that the host is up", port)
	case portprobe.Silent:
		return "see whether the server's process hangs, or a proxy or load balancer takes the connection"
	case portprobe.Closes:
		return "see the server's log: it may refuse this host, be full, or speak another protocol there"
	}
	return "another service has this port: give the server's own NFS port"
}

// refusedAdvice returns the advice about a port without a listener. The server may listen at
// another address, which can be checked on this machine.
func (cu *checkup) refusedAdvice(ctx context.Context, port int, serve string) string {
	addr, err := netip.ParseAddr(cu.addr)
	if err != nil || addr.IsLoopback() {
		return serve
	}
	if addr.Unmap() != cu.local { // the server is another machine
		return serve + "; where it does, have it listen at " + cu.addr + " (nfsrdmad listens on 127.0.0.1 alone without --addr), and see that no firewall refuses the port"
	}
	ctx, cancel := context.WithTimeout(ctx, cu.timeLimit(pickTime))
	defer cancel()
	c, err := cu.Dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
	if err != nil {
		return serve
	}
	c.Close()
	return "the service at this port listens on 127.0.0.1 alone: start it with --addr " + cu.addr + ", or name the server 127.0.0.1"
}

// innermostError returns the innermost error of a net.OpError, or another error whole.
func innermostError(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return err.Error()
}
