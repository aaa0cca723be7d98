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

// A Socket sends and receives the packets of one address. Send and Receive may be called at the
// same time, each by one goroutine.
type Socket struct {
	local netip.AddrPort // set once
	conn  *net.UDPConn
	raw   syscall.RawConn
	joins bool // several packets in a message, both ways
	errs  socketErrors
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
	if i := interfaceOf(addr); i != nil {
		_ = s.raw.Control(func(fd uintptr) { leaveBy(int(fd), addr.Is6(), i.Index) }) // else the routing table decides
	}
	s.local = netip.AddrPortFrom(addr, uint16(s.conn.LocalAddr().(*net.UDPAddr).Port))
	_ = s.raw.Control(func(fd uintptr) { s.joins = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1) == nil })
	return s, nil
}

// options makes the IP headers of what is sent predictable, and asks for what the network says of
// it. It fails where packets cannot be moved, as in a container whose filter forbids that.
func options(fd int, six bool) error {
	for name, nr := range map[string]uintptr{"recvmmsg": unix.SYS_RECVMMSG, "sendmmsg": unix.SYS_SENDMMSG} {
		if _, _, e := unix.Syscall6(nr, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0); e == unix.ENOSYS || e == unix.EPERM {
			return fmt.Errorf("%s is not available, which RoCE needs: %w", name, e)
		}
	}
	if err := wantErrors(fd, six); err != nil {
		return err
	}
	type option struct{ level, name, value int }
	wanted := []option{{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO}, {unix.IPPROTO_IP, unix.IP_TOS, ect0}, {unix.IPPROTO_IP, unix.IP_RECVTOS, 1}}
	if six {
		wanted = []option{{unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO}, {unix.IPPROTO_IPV6, unix.IPV6_TCLASS, ect0},
			{unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1}, {unix.IPPROTO_UDP, udpNoCheck6RX, 1}}
	}
	for _, o := range wanted {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return err
		}
	}
	return nil
}

// ect0 is the traffic class of what is sent: a switch that has no room soon may mark it instead of
// dropping it (RFC 3168 section 5). The receiver tells the sender by a CNP.
const ect0 = 2

// Local is the address that the socket is bound to.
func (s *Socket) Local() netip.AddrPort { return s.local }

// Close ends what waits in Send and Receive, with an error that wraps net.ErrClosed.
func (s *Socket) Close() error { return s.conn.Close() }

// A segmentSize is the control message that says how long the packets of a message are; a told is
// one that comes with a message, of which there are two: how long its packets are, and the traffic
// class of all of them.
type (
	segmentSize struct {
		unix.Cmsghdr
		size uint16
		_    [6]byte
	}
	told struct {
		unix.Cmsghdr
		value [8]byte // an int, or for IPv4's TOS one byte
	}
)

// mmsghdr is that of <sys/socket.h>.
type mmsghdr struct {
	unix.Msghdr
	n uint32 // bytes that were moved
}

// Send hands the packets of b to the network, in order, and returns how many it took; full: it
// takes no more now, and WaitWritable is next. It never waits. An error is of the first packet that
// was not taken, and of no other: those after it can be tried again by taking it out (Batch.Drop).
func (s *Socket) Send(b *Batch) (sent int, full bool, err error) {
	b.err, b.full = 0, false
	for b.at < b.n && err == nil && !b.full {
		err = s.raw.Write(b.send)
		if err == nil && b.err != 0 && !b.part() {
			err = b.err
		}
		b.err = 0
	}
	sent = b.at - b.told
	b.told = b.at
	if b.at == b.n {
		b.reset()
	}
	return sent, b.full, err
}

// sendmmsg is one system call. Like recvmmsg it does not wait (MSG_DONTWAIT), so Go's scheduler is
// not told of it: it would give the processor of a call that takes longer than 20 µs to another
// thread, as a batch of packets does, wake threads for that, and look for such calls so often that
// doing so interrupts those who move packets.
func (b *Batch) sendmmsg(fd uintptr) bool {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&b.msgs[b.done])), uintptr(len(b.groups)-b.done), unix.MSG_DONTWAIT, 0, 0)
	switch e {
	case 0:
		b.left(int(n))
	case unix.EAGAIN:
		b.full = true
	case unix.EINTR:
	default:
		if !b.errs.explain(fd, e, &b.seen) {
			b.err = e
		}
	}
	return true
}

// WaitWritable waits until there may be room for a packet.
func (s *Socket) WaitWritable() error {
	return s.raw.Write(func(fd uintptr) bool {
		// Asked anew: that there was room since Send found none is told once, and may have been
		// told before this call.
		ask := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(ask, 0)
		return n > 0 || err != nil
	})
}

// Buffers asks for room for n bytes of packets each way, and reports what there is then, in bytes.
// A system without the right to more gives what it allows everybody.
func (s *Socket) Buffers(n int) (in, out int) {
	_ = s.raw.Control(func(fd uintptr) {
		in = buffer(int(fd), unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, n)
		out = buffer(int(fd), unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, n)
	})
	return in, out
}

func buffer(fd, force, ask, n int) int {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, n) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, ask, n)
	}
	got, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, ask)
	return got
}

// Receive waits for packets and fills b with those that are there, in order of arrival.
func (s *Socket) Receive(b *Inbound) error {
	b.n, b.err = 0, 0
	b.prepare()
	for b.n == 0 {
		if err := s.raw.Read(b.receive); err != nil {
			b.look.Found() // nothing is there any more
			return err
		}
		if b.err != 0 {
			return b.err
		}
	}
	b.split()
	return nil
}

// recvmmsg is one system call; false: there is nothing.
func (b *Inbound) recvmmsg(fd uintptr) bool {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&b.msgs[0])), uintptr(len(b.msgs)), unix.MSG_DONTWAIT, 0, 0)
	if e == unix.EAGAIN {
		return b.looks && b.look.Again()
	}
	b.look.Found()
	switch e {
	case 0:
		b.n = int(n)
	case unix.EINTR:
	default:
		if !b.errs.explain(fd, e, &b.seen) { // else it is of a packet that went before
			b.err = e
		}
	}
	return true
}
