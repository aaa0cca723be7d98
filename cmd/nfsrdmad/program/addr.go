// The address to serve on, as typed.

package program

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
)

// splitAddr takes the TCP port from --addr HOST:PORT; RDMA has a separate flag.
func (o *options) splitAddr(f *pflag.FlagSet) error {
	host, port := cli.CutPort(o.addr)
	if port == 0 {
		return nil
	}
	if f.Changed("tcp-port") && o.tcpPort != port {
		return fmt.Errorf("--addr %s and --tcp-port %v contradict each other: give one port", o.addr, f.Lookup("tcp-port").Value)
	}
	o.addr, o.tcpPort = host, port
	return nil
}

// listenHost returns the host in --addr: a name or an address. An IPv6 address may be in brackets
// and have a zone.
func listenHost(addr string) (string, error) {
	host := addr
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok {
			return "", badAddr(addr)
		}
		if a, err := netip.ParseAddr(host); err != nil || !a.Is6() {
			return "", fmt.Errorf("--addr %s: no IPv6 address in the brackets", addr)
		}
	} else if _, err := netip.ParseAddr(host); err != nil && strings.ContainsAny(host, ":[]%/") {
		return "", badAddr(addr)
	}
	if host == "" {
		return "", fmt.Errorf("--addr is empty: 0.0.0.0 is all of IPv4, :: all there is")
	}
	return host, nil
}

// warnAbsent warns if host is not an address of this machine: a later address, or a mistake.
func warnAbsent(option, host string) {
	want, err := netip.ParseAddr(host)
	all, allErr := net.InterfaceAddrs()
	if err != nil || allErr != nil || want.IsUnspecified() || want.IsLoopback() {
		return
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(want.AsSlice()) {
			return
		}
	}
	logrus.Warnf("%s: %s is not an address of this machine (ip address shows those): it is served when it becomes one", option, host)
}

// badAddr returns the error for an invalid address.
func badAddr(addr string) error {
	return fmt.Errorf("--addr %s is neither a name nor an address such as 192.0.2.1, 192.0.2.1:2049, ::1 or fe80::1%%eth0", addr)
}

// address returns the address to listen on, or "" for port 0.
func address(host string, port uint16) string {
	if port == 0 {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
