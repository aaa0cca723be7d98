//go:build linux

// The socket: its options, and the system calls that move packet batches.

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

// udpNoCheck6RX, from <linux/udp.h>: accept IPv6 datagrams without a checksum.
const udpNoCheck6RX = 102

var errAddress = errors.New("roce: a socket needs the address of one interface, for the ICRC covers it")

// A Socket sends and receives one address's packets. One goroutine may call Send while another
// calls Receive.
type Socket struct {
	local netip.AddrPort // set once
	conn  *net.UDPConn
	raw   syscall.RawConn
	joins bool // joins several packets in a message, both ways
	errs  socketErrors
}

// Listen opens a socket at an interface's address; port 0 means any port.
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
		// If this fails, the routing table decides.
		_ = s.raw.Control(func(fd uintptr) { setMulticastInterface(int(fd), addr.Is6(), i.Index) })
	}
	s.local = netip.AddrPortFrom(addr, uint16(s.conn.LocalAddr().(*net.UDPAddr).Port))
	_ = s.raw.Control(func(fd uintptr) { s.joins = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1) == nil })
	return s, nil
}

// options makes the IP headers of sent packets predictable, and enables ICMP errors. It fails if
// the batch system calls are forbidden, as by a container's seccomp filter.
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

// ect0 is the traffic class of sent packets: an almost full switch may mark them instead of
// dropping (RFC 3168 section 5). The receiver then sends the sender a CNP.
const ect0 = 2

// Local returns the socket's own address.
func (s *Socket) Local() netip.AddrPort { return s.local }

// Close makes waiting Send and Receive calls return an error that wraps net.ErrClosed.
func (s *Socket) Close() error { return s.conn.Close() }

// A segmentSize is the outgoing control message with the length of a message's packets. A
// recvControl is an incoming one; there are two for each message: its packets' length, and their
// traffic class.
type (
	segmentSize struct {
		unix.Cmsghdr
		size uint16
		_    [6]byte
	}
	recvControl struct {
		unix.Cmsghdr
		value [8]byte // an int, or one byte for IPv4's TOS
	}
)

// mmsghdr is struct mmsghdr in <sys/socket.h>.
type mmsghdr struct {
	unix.Msghdr
	n uint32 // bytes transferred
}

// Send hands b's packets to the network, in order, and returns how many it took. full means that
// there is no room for more now: call WaitWritable. Send never blocks. An error concerns only the
// first packet not taken; after Batch.Drop the others can be sent.
func (s *Socket) Send(b *Batch) (sent int, full bool, err error) {
	b.err, b.full = 0, false
	for b.at < b.n && err == nil && !b.full {
		err = s.raw.Write(b.send)
		if err == nil && b.err != 0 && !b.splitMessage() {
			err = b.err
		}
		b.err = 0
	}
	sent = b.at - b.reported
	b.reported = b.at
	if b.at == b.n {
		b.reset()
	}
	return sent, b.full, err
}

// sendmmsg makes one system call. Like recvmmsg it does not block (MSG_DONTWAIT), so it bypasses
// Go's scheduler. For a call longer than 20 µs, such as this, the scheduler would hand its
// processor to another thread, wake threads for that, and check so often that this disturbs packet
// processing.
func (b *Batch) sendmmsg(fd uintptr) bool {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&b.msgs[b.done])), uintptr(len(b.messages)-b.done), unix.MSG_DONTWAIT, 0, 0)
	switch e {
	case 0:
		b.noteSent(int(n))
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
		// Poll here: the edge event for new room occurs only once, maybe before this call.
		ask := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(ask, 0)
		return n > 0 || err != nil
	})
}

// Buffers requests socket buffers of n bytes each way, and returns the resulting sizes in bytes.
// An unprivileged process gets at most the system's limit.
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

// Receive waits for packets and fills b with all available ones, in order of arrival.
func (s *Socket) Receive(b *Inbound) error {
	b.n, b.err = 0, 0
	b.prepare()
	for b.n == 0 {
		if err := s.raw.Read(b.receive); err != nil {
			b.spinner.Found() // stops the spin: the socket is closed
			return err
		}
		if b.err != 0 {
			return b.err
		}
	}
	b.split()
	return nil
}

// recvmmsg makes one system call; false: there is nothing to receive.
func (b *Inbound) recvmmsg(fd uintptr) bool {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&b.msgs[0])), uintptr(len(b.msgs)), unix.MSG_DONTWAIT, 0, 0)
	if e == unix.EAGAIN {
		return b.spins && b.spinner.Continue()
	}
	b.spinner.Found()
	switch e {
	case 0:
		b.n = int(n)
	case unix.EINTR:
	default:
		if !b.errs.explain(fd, e, &b.seen) { // an explained error concerns an earlier packet
			b.err = e
		}
	}
	return true
}
