// Reasons why a server refuses a host's mount.

package rights

import (
	"errors"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// MayReserve reports whether this process can use a port below 1024, as a server with secure in its
// exports file requires.
func MayReserve() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	const some = 1009
	err = unix.Bind(fd, &unix.SockaddrInet4{Port: some})
	return err == nil || errors.Is(err, unix.EADDRINUSE)
}

// A Membership states whether a host is among the clients of an export.
type Membership uint8

// The memberships.
const (
	Unknown Membership = iota
	Listed
	NotListed
)

// Among compares the address of a host with the names in an export's list. A host name, a netgroup
// or a wildcard can match any host.
func Among(groups []string, host netip.Addr) Membership {
	m := NotListed
	if len(groups) == 0 {
		return Listed // an export without a list admits every host
	}
	for _, g := range groups {
		g, _, _ = strings.Cut(g, "(")
		addr, err := netip.ParseAddr(g)
		network, netErr := netip.ParsePrefix(g)
		switch {
		case g == "*":
			return Listed
		case err == nil && addr == host, netErr == nil && network.Contains(host):
			return Listed
		case err != nil && netErr != nil || !host.IsValid():
			m = Unknown
		}
	}
	return m
}
