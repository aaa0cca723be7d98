//go:build linux

// What the kernel knows of the way to a peer.

package udp

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// discard is a port of the peer's that a socket is connected to, which sends nothing.
const discard = 9

// PathMTU is how long packets from an address of this host to a peer may be, with the IP header, as the kernel knows at this moment: what the
// interface and the route take, and less where a router has said so lately (RFC 1191, RFC 8201). 0: there is no way.
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
