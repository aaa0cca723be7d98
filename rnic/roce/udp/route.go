//go:build linux

// The kernel's path MTU to a peer.

package udp

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// discard is the port that the socket connects to; it sends nothing.
const discard = 9

// PathMTU returns the kernel's current path MTU between two addresses, in bytes including the IP
// header: the interface's or route's, or a router's lower value reported recently (RFC 1191, RFC
// 8201). 0: there is no route.
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
