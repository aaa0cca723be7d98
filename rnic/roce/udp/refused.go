//go:build linux

// What the network says of packets that have left: nobody has the port that they were for.

package udp

import (
	"net/netip"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketErrors are what routers and hosts say of its packets (ICMP): the kernel keeps them in a
// queue, and has one call that sends or receives fail for each. Anybody can send such a message, so
// the calls are made again, and what is said is a hint to whoever can tell from the packet that it
// quotes whether it was ours.
type socketErrors struct {
	mu      sync.Mutex                               // one goroutine reads the queue at a time
	count   int                                      // guarded by mu: messages that were read
	refused func(to netip.AddrPort, datagram []byte) // set once
	room    [quoted]byte                             // guarded by mu, as is what follows
	control [512]byte
}

// quoted is how much of a packet is of use: its BTH.
const quoted = 64

// OnRefused has f told of packets that came to a port that nobody has: where they were for, and how
// the datagram began, which is f's for the call. It is called before the first Send and Receive. f
// MUST NOT wait, nor call methods of s.
func (s *Socket) OnRefused(f func(to netip.AddrPort, datagram []byte)) { s.errs.refused = f }

// wantErrors asks the kernel for the queue.
func wantErrors(fd int, six bool) error {
	if six {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1)
}

// explain reports whether a system call has failed, with errno, because of a message in the queue
// and not by its own fault: the latter never refuses a connection, and of other errors one is
// explained by a message that was read since *seen of them were. It empties the queue.
func (e *socketErrors) explain(fd uintptr, errno syscall.Errno, seen *int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.read(fd) {
	}
	some := e.count != *seen
	*seen = e.count
	return some || errno == unix.ECONNREFUSED
}

// read takes one message out of the queue, and reports whether there was one. The caller holds mu.
func (e *socketErrors) read(fd uintptr) bool {
	var name unix.RawSockaddrInet6
	iov := unix.Iovec{Base: &e.room[0]}
	iov.SetLen(len(e.room))
	m := unix.Msghdr{Name: (*byte)(unsafe.Pointer(&name)), Namelen: unix.SizeofSockaddrInet6, Iov: &iov, Control: &e.control[0]}
	m.SetIovlen(1)
	m.SetControllen(len(e.control))
	n, _, errno := unix.Syscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&m)), unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if errno != 0 {
		return errno == unix.EINTR
	}
	list, err := unix.ParseSocketControlMessage(e.control[:m.Controllen])
	if err != nil {
		return true
	}
	for _, c := range list {
		four := c.Header.Level == unix.IPPROTO_IP && c.Header.Type == unix.IP_RECVERR
		six := c.Header.Level == unix.IPPROTO_IPV6 && c.Header.Type == unix.IPV6_RECVERR
		if !four && !six || len(c.Data) < int(unsafe.Sizeof(unix.SockExtendedErr{})) {
			continue
		}
		ee := (*unix.SockExtendedErr)(unsafe.Pointer(&c.Data[0]))
		if ee.Origin == unix.SO_EE_ORIGIN_LOCAL {
			continue // of a call of ours, which has told it already
		}
		e.count++
		if syscall.Errno(ee.Errno) == unix.ECONNREFUSED && e.refused != nil {
			e.refused(source(&name), e.room[:n])
		}
	}
	return true
}
