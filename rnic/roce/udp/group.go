//go:build linux

// Multicast: a group's socket, and the outgoing interface for packets to groups.

package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// groupBatch is the batch size of a group's Receiver.
const groupBatch = 16

// Errors about a group, or the address to join it from.
var (
	errGroup     = errors.New("roce: not a multicast address of the port's family")
	errInterface = errors.New("roce: no interface has the address")
)

// A groupReceiver is a multicast group's Receiver.
type groupReceiver struct {
	*Socket
	in *Inbound
}

func (r *groupReceiver) Packet(i int) (head, data []byte, good bool) { return r.in.Packet(i) }
func (r *groupReceiver) Receive(bool) (n int, err error) {
	err = r.Socket.Receive(r.in)
	return r.in.Len(), err
}

// OpenGroup joins a multicast group on the interface with address at, and receives its packets to
// at's port. Closing the Receiver leaves the group. Other sockets may join it on the same
// interface, and also get the packets.
//
// The socket is bound to the group, because the ICRC covers a packet's destination, and a socket
// bound to the interface's address gets no multicast packets. It receives only for its own
// membership: by default Linux delivers packets for any socket's membership on the host.
func OpenGroup(at netip.AddrPort, group netip.Addr) (Receiver, error) {
	addr := at.Addr().Unmap()
	group = group.Unmap().WithZone("")
	if !group.IsMulticast() || group.Is4() != addr.Is4() {
		return nil, fmt.Errorf("%w: %v", errGroup, group)
	}
	i := interfaceOf(addr)
	if i == nil {
		return nil, fmt.Errorf("%w %v", errInterface, addr)
	}
	s, err := listenGroup(netip.AddrPortFrom(group, at.Port()), i.Index)
	if err != nil {
		return nil, fmt.Errorf("join %v on %s: %w", group, i.Name, err)
	}
	s.Buffers(socketBytes)
	return &groupReceiver{s, NewInbound(s, groupBatch)}, nil
}

// listenGroup creates the socket by system calls: package net would bind it to all addresses.
func listenGroup(group netip.AddrPort, index int) (*Socket, error) {
	family, six := unix.AF_INET, group.Addr().Is6()
	var sa unix.Sockaddr = &unix.SockaddrInet4{Port: int(group.Port())}
	if six {
		family = unix.AF_INET6
		sa = &unix.SockaddrInet6{Port: int(group.Port()), Addr: group.Addr().As16(), ZoneId: uint32(index)}
	} else {
		sa.(*unix.SockaddrInet4).Addr = group.Addr().As4()
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "multicast group")
	defer file.Close() // FilePacketConn duplicates the descriptor
	if err = options(fd, six); err == nil {
		err = join(fd, group.Addr(), index)
	}
	if err == nil {
		err = unix.Bind(fd, sa)
	}
	if err != nil {
		return nil, err
	}
	c, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	s := &Socket{local: group, conn: c.(*net.UDPConn)}
	if s.raw, err = s.conn.SyscallConn(); err != nil {
		c.Close()
		return nil, err
	}
	return s, nil
}

// ipv6MulticastAll, from <linux/in6.h>: deliver packets for other sockets' memberships, too.
const ipv6MulticastAll = 29

// join makes a socket a group member on one interface only.
func join(fd int, group netip.Addr, index int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if group.Is4() {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0); err != nil {
			return err
		}
		return unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(index)})
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, ipv6MulticastAll, 0); err != nil {
		return err
	}
	return unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, &unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(index)})
}

// setMulticastInterface sets the outgoing interface for packets to groups.
func setMulticastInterface(fd int, six bool, index int) {
	if six {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, index)
		return
	}
	_ = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(index)})
}

// interfaceOf returns the interface with an address, or nil. Loopback has all of 127.0.0.0/8.
func interfaceOf(addr netip.Addr) *net.Interface {
	list, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for i := range list {
		addrs, err := list[i].Addrs()
		if err != nil {
			continue
		}
		if addr.IsLoopback() && list[i].Flags&net.FlagLoopback != 0 {
			return &list[i]
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				if is, _ := netip.AddrFromSlice(n.IP); is.Unmap() == addr.WithZone("") && (addr.Zone() == "" || addr.Zone() == list[i].Name) {
					return &list[i]
				}
			}
		}
	}
	return nil
}
