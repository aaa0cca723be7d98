//go:build linux

// The kernel's path MTU to a peer.

package udp

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// discard is the peer's port that the socket connects to; it sends nothing.
const discard = 9

// PathMTU is the length of the longest packets, with the IP header, from an address of this host to
// a peer. It is the kernel's at this moment: that of interface and route, or less if a router has
// reported less recently (RFC 1191, RFC 8201). 0: there is no route.
func PathMTU(local, peer netip.Addr) (n int) {
	d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0))}
	c, err := d.Dial("udp", netip.AddrPortFrom(peer, discard).String())
	if err != nil {
		return 0
	}
	defer c.Close()
	raw, err := c.(*net.UDPConn).SyscallConn()
	if err != nil {
		return 0
	}
	level, option := unix.IPPROTO_IP, unix.IP_MTU
	if peer.Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	_ = raw.Control(func(fd uintptr) { n, _ = unix.GetsockoptInt(int(fd), level, option) })
	return n
}
