//go:build linux

// The socket: how it is made, and the system calls that move a batch of packets.

package udp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Of <linux/udp.h>: a datagram over IPv6 with no checksum is taken.
const udpNoCheck6RX = 102

var errAddress = errors.New("roce: a socket needs the address of one interface, for the ICRC covers it")

// A Socket sends and receives the packets of one address. Send and Receive may be called at the same time, each by
// one goroutine.
type Socket struct {
	local netip.AddrPort // set once
	conn  *net.UDPConn
	raw   syscall.RawConn
}

// Listen opens a socket at an address, which MUST be one interface's; port 0 is any.
func Listen(at netip.AddrPort) (*Socket, error) {
	addr := at.Addr().Unmap()
	if !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() {
		return nil, fmt.Errorf("%w: %v", errAddress, at)
	}
	network := "udp4"
	if addr.Is6() {
		network = "udp6"
	}
	var failed error
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		if err := c.Control(func(fd uintptr) { failed = options(int(fd), addr.Is6()) }); err != nil {
			return err
		}
		return failed
	}}
	c, err := lc.ListenPacket(context.Background(), network, netip.AddrPortFrom(addr, at.Port()).String())
	if err != nil {
		return nil, err
	}
	s := &Socket{conn: c.(*net.UDPConn)}
	if s.raw, err = s.conn.SyscallConn(); err != nil {
		c.Close()
		return nil, err
	}
	s.local = netip.AddrPortFrom(addr, uint16(s.conn.LocalAddr().(*net.UDPAddr).Port))
	return s, nil
}

// options makes the IP headers of what is sent predictable.
func options(fd int, six bool) error {
	if !six {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, udpNoCheck6RX, 1)
}

// Local is the address that the socket is bound to.
func (s *Socket) Local() netip.AddrPort { return s.local }

// Close ends what waits in Send and Receive, with an error that wraps net.ErrClosed.
func (s *Socket) Close() error { return s.conn.Close() }

// mmsghdr is that of <sys/socket.h>.
type mmsghdr struct {
	unix.Msghdr
	n uint32 // bytes that were moved
}

// Send hands the packets of b to the network, in order, and returns how many it took. An error is of the first that it
// did not take, and of no other: those after it can be tried again by taking it out (Batch.Drop). It waits for room in
// the socket.
func (s *Socket) Send(b *Batch) (sent int, err error) {
	b.err = 0
	for b.at < b.n && err == nil {
		if err = s.raw.Write(b.send); err == nil && b.err != 0 {
			err = b.err
		}
	}
	sent = b.at - b.told
	b.told = b.at
	if b.at == b.n {
		b.reset()
	}
	return sent, err
}

// sendmmsg is one system call; false: there is no room.
func (b *Batch) sendmmsg(fd uintptr) bool {
	n, _, e := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&b.msgs[b.at])), uintptr(b.n-b.at), unix.MSG_DONTWAIT, 0, 0)
	switch e {
	case 0:
		b.at += int(n)
	case unix.EAGAIN:
		return false
	case unix.EINTR:
	default:
		b.err = e
	}
	return true
}

// Receive waits for packets and fills b with those that are there, in order of arrival.
func (s *Socket) Receive(b *Inbound) error {
	b.n, b.err = 0, 0
	b.prepare()
	for b.n == 0 {
		if err := s.raw.Read(b.receive); err != nil {
			return err
		}
		if b.err != 0 {
			return b.err
		}
	}
	for i := range b.n {
		b.head(i, s.local)
	}
	return nil
}

// recvmmsg is one system call; false: there is nothing.
func (b *Inbound) recvmmsg(fd uintptr) bool {
	n, _, e := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&b.msgs[0])), uintptr(len(b.msgs)), unix.MSG_DONTWAIT, 0, 0)
	switch e {
	case 0:
		b.n = int(n)
	case unix.EAGAIN:
		return false
	case unix.EINTR, unix.ECONNREFUSED: // the latter is of a packet that went before: UDP promises nothing
	default:
		b.err = e
	}
	return true
}
