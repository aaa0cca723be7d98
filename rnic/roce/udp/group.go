//go:build linux

// Multicast: the socket of a group, and the interface that packets to groups leave by.

package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// groupBatch is how many packets a Receiver of a group takes at a time.
const groupBatch = 16

// What is wrong with a group, or with the address that it is joined from.
var (
	errGroup     = errors.New("roce: not a multicast address of the port's family")
	errInterface = errors.New("roce: no interface has the address")
)

// A groupReceiver is the Receiver of a group.
type groupReceiver struct {
	*Socket
	in *Inbound
}

func (r *groupReceiver) Packet(i int) (head, data []byte, good bool) { return r.in.Packet(i) }
func (r *groupReceiver) Receive(bool) (n int, err error) {
	err = r.Socket.Receive(r.in)
	return r.in.Len(), err
}

// OpenGroup joins a multicast group on the interface that has the address at, and takes what comes
// there to the group and the port of at. Closing it leaves the group. Others can have joined it on
// the same interface, and get the packets too.
//
// The socket is bound to the group, for a packet's ICRC covers where it was sent to, and a socket
// that is bound to an address of the interface gets none of a group. It is a member there alone: by
// default Linux gives it what any socket of the host has joined for.
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

// listenGroup makes the socket by system calls: package net would bind it to all addresses.
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
	defer file.Close() // FilePacketConn has a descriptor of its own
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

// Of <linux/in6.h>: whether the socket gets what others have joined for.
const ipv6MulticastAll = 29

// join makes a socket a member of a group on one interface, and of no other's.
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

// leaveBy has what is sent to groups leave by one interface.
func leaveBy(fd int, six bool, index int) {
	if six {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, index)
		return
	}
	_ = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(index)})
}

// interfaceOf is the interface that has an address, nil if none. All of 127.0.0.0/8 is loopback's.
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
