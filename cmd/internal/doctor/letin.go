// Advice about a server that does not let this host in. It leaves out the reasons that do not hold.

package doctor

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// mayReserve reports whether this process can use a port below 1024, as a server with secure in its
// exports file requires.
func mayReserve() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	const some = 1009
	err = unix.Bind(fd, &unix.SockaddrInet4{Port: some})
	return err == nil || errors.Is(err, unix.EADDRINUSE)
}

// portMatters reports whether calls over TCP may be refused because they come from a port that is
// not reserved.
func (x *exam) portMatters(rdma bool) bool { return !rdma && !x.reserved() }

// membership states whether this host is among the clients of an export.
type membership uint8

const (
	unknown membership = iota
	listed
	notListed
)

// among compares the address of this host with the names in an export's list. A host name, a
// netgroup or a wildcard can match any host.
func (x *exam) among(groups []string) membership {
	m := notListed
	if len(groups) == 0 {
		return listed // everyone
	}
	for _, g := range groups {
		g, _, _ = strings.Cut(g, "(")
		addr, err := netip.ParseAddr(g)
		network, netErr := netip.ParsePrefix(g)
		switch {
		case g == "*":
			return listed
		case err == nil && addr == x.local, netErr == nil && network.Contains(x.local):
			return listed
		case err != nil && netErr != nil || !x.local.IsValid():
			m = unknown
		}
	}
	return m
}

// letInAdvice is the advice after MNT has refused this host. groups are the clients of the export;
// known is false if the server does not report them.
func (x *exam) letInAdvice(groups []string, known bool) string {
	const root = "run as root, because the server requires a reserved port (secure of exports(5)), or export with insecure"
	port := x.portMatters(x.mount == x.rdma)
	m := unknown
	if known {
		m = x.among(groups)
	}
	to := "the clients of the export"
	if len(groups) > 0 {
		to = strings.Join(groups, ",") + ", to which it is exported,"
	}
	host := "this host"
	if x.local.IsValid() {
		host += ", " + x.local.String() + ","
	}
	switch {
	case m == listed && port:
		return root
	case m == listed:
		return fmt.Sprintf("%s is among the clients of the export: see the server's log for the address it sees (a NAT between changes it)", host)
	case m == notListed && port:
		return fmt.Sprintf("add %s to %s on the server, and %s", host, to, root)
	case port:
		return fmt.Sprintf("add %s to %s on the server (exports(5)) if it is not there; else %s", host, to, root)
	}
	return fmt.Sprintf("add %s to %s on the server (exports(5))", host, to)
}
