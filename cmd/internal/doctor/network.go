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
func checkName(ctx context.Context, x *exam) Finding {
	if _, err := netip.ParseAddr(x.Host); err == nil {
		x.addr = x.Host
		return ok("%s is an address", x.Host)
	}
	addrs, err := x.Lookup(ctx, "ip", x.Host)
	if err == nil && len(addrs) == 0 {
		err = errors.New("no address")
	}
	if err != nil {
		text := err.Error()
		var dns *net.DNSError
		if errors.As(err, &dns) {
			text = dns.Err
		}
		return fail("check the spelling, /etc/hosts and /etc/resolv.conf, or give the server's address", "%s does not resolve: %s", x.Host, text)
	}
	hosts := make([]string, len(addrs))
	for i, a := range addrs {
		hosts[i] = a.Unmap().String()
	}
	x.addr = hosts[0]
	if len(hosts) == 1 {
		return ok("%s is %s", x.Host, x.addr)
	}
	up := x.answering(ctx, hosts)
	for i := len(hosts) - 1; i >= 0; i-- {
		if up[i] {
			x.addr = hosts[i]
		}
	}
	for i := range hosts {
		if !up[i] && x.addr != hosts[i] {
			return warn("take the address out of the name service, or have the server listen there: clients may try it first",
				"%s is %s; no NFS port answers at %s; %s is examined", x.Host, strings.Join(hosts, " and "), hosts[i], x.addr)
		}
	}
	return ok("%s is %s; %s is examined", x.Host, strings.Join(hosts, " and "), x.addr)
}

// answering reports for each address whether one of the NFS ports accepts connections.
func (x *exam) answering(ctx context.Context, hosts []string) []bool {
	ctx, cancel := context.WithTimeout(ctx, x.most(pickTime))
	defer cancel()
	ports := []int{x.RDMAPort, x.TCPPort}
	open := make([]bool, len(hosts)*len(ports))
	var wg sync.WaitGroup
	for i := range open {
		wg.Go(func() {
			c, err := x.Dial(ctx, "tcp", net.JoinHostPort(hosts[i/len(ports)], fmt.Sprint(ports[i%len(ports)])))
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

// checkRoute asks the kernel for the route. No packet is sent.
func checkRoute(ctx context.Context, x *exam) Finding {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", x.at(x.RDMAPort))
	if err != nil {
		return fail("check the addresses and routes of this machine (ip addr, ip route get "+x.addr+")", "no way to %s: %s", x.addr, plain(err))
	}
	defer c.Close()
	local := c.LocalAddr().(*net.UDPAddr).IP
	from, _ := netip.AddrFromSlice(local)
	x.local = from.Unmap()
	ifs, _ := net.Interfaces()
	for _, i := range ifs {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if n, isNet := a.(*net.IPNet); isNet && n.IP.Equal(local) || i.Flags&net.FlagLoopback != 0 && local.IsLoopback() {
				x.device, x.mtu = i.Name, i.MTU
			}
		}
	}
	switch {
	case x.device == "":
		return ok("from %s", local)
	case x.mtu < 1280:
		return warn("raise it with ip link set "+x.device+" mtu 1500 if the network allows", "from %s on %s, whose MTU is only %d", local, x.device, x.mtu)
	}
	return ok("from %s on %s, MTU %d", local, x.device, x.mtu)
}

// checkRDMAPort identifies the service on the RDMA port, by the provider that the user wants.
func checkRDMAPort(ctx context.Context, x *exam) Finding {
	if x.Provider == nfsclient.RoCE {
		return checkRoCE(ctx, x)
	}
	first, cancel := ctx, context.CancelFunc(func() {})
	if x.Provider == nfsclient.AutoProvider {
		// leaves the rest of the time for RoCE
		first, cancel = context.WithTimeout(ctx, x.most(checkTime/2))
	}
	defer cancel()
	x.rdmaPort = portprobe.Identify(first, x.most(portprobe.Wait), x.Dial, x.at(x.RDMAPort), portprobe.MPA)
	if x.rdmaPort.Kind == portprobe.MPA {
		return ok("%d answers, and speaks iWARP", x.RDMAPort)
	}
	text := found(x.rdmaPort)
	if x.Provider == nfsclient.AutoProvider {
		f := checkRoCE(ctx, x)
		if f.Status == OK {
			return f
		}
		x.roce = false
		text += "; by RoCE: " + f.Text
	}
	advice := "this is the TCP port: the RDMA port is usually 20049"
	if x.rdmaPort.Kind != portprobe.RPC {
		advice = x.closedAdvice(ctx, x.rdmaPort.Kind, x.RDMAPort, "have the server serve RDMA there (nfsrdmad serve; with Linux: echo rdma 20049 > /proc/fs/nfsd/portlist)")
	}
	return x.wanted(false, advice, "%d: %s", x.RDMAPort, text)
}

// checkTCPPort identifies the service on the TCP port.
func checkTCPPort(ctx context.Context, x *exam) Finding {
	x.tcpPort = portprobe.Identify(ctx, x.most(portprobe.Wait), x.Dial, x.at(x.TCPPort), portprobe.RPC)
	if x.tcpPort.Kind == portprobe.RPC {
		return ok("%d answers, and speaks ONC RPC", x.TCPPort)
	}
	advice := "this is the RDMA port: the TCP port is usually 2049"
	if x.tcpPort.Kind != portprobe.MPA {
		advice = x.closedAdvice(ctx, x.tcpPort.Kind, x.TCPPort, "have the server serve NFS over TCP there, if it is wanted: the kernel's mount needs a MOUNT service over TCP in any case")
	}
	return x.wanted(true, advice, "%d: %s", x.TCPPort, found(x.tcpPort))
}

// checkBindPort checks whether rpcbind is reachable. Only the kernel's defaults need it.
func checkBindPort(ctx context.Context, x *exam) Finding {
	x.bindPort = portprobe.Identify(ctx, x.most(portprobe.Wait), x.Dial, x.at(x.BindPort), portprobe.RPC)
	if x.bindPort.Kind == portprobe.RPC {
		return ok("%d answers", x.BindPort)
	}
	return warn("give mount the ports, as in the command below", "%d: %s", x.BindPort, found(x.bindPort))
}

// found describes the service on a port. If the network itself refuses, the system's error is
// quoted.
func found(r portprobe.Result) string {
	var timeout interface{ Timeout() bool }
	if r.Kind == portprobe.Filtered && !errors.Is(r.Err, context.Canceled) && (!errors.As(r.Err, &timeout) || !timeout.Timeout()) {
		return "out of reach: " + plain(r.Err)
	}
	return r.Kind.String()
}

// closedAdvice returns the advice about a port with no service or another one.
func (x *exam) closedAdvice(ctx context.Context, k portprobe.Kind, port int, serve string) string {
	switch k {
	case portprobe.Refused:
		return x.refusedAdvice(ctx, port, serve)
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
func (x *exam) refusedAdvice(ctx context.Context, port int, serve string) string {
	addr, err := netip.ParseAddr(x.addr)
	if err != nil || addr.IsLoopback() {
		return serve
	}
	if addr.Unmap() != x.local { // another machine
		return serve + "; where it does, have it listen at " + x.addr + " (nfsrdmad listens on 127.0.0.1 alone without --addr), and see that no firewall refuses the port"
	}
	ctx, cancel := context.WithTimeout(ctx, x.most(pickTime))
	defer cancel()
	c, err := x.Dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
	if err != nil {
		return serve
	}
	c.Close()
	return "the service at this port listens on 127.0.0.1 alone: start it with --addr " + x.addr + ", or name the server 127.0.0.1"
}

// plain returns the innermost error of a net.OpError, or another error whole.
func plain(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return err.Error()
}
