//go:build linux

// ICMP errors about sent packets, such as closed ports.

package udp

import (
	"net/netip"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketErrors reads ICMP errors about the socket's packets. The kernel queues them, and makes
// one system call fail for each. They are easily forged, so the failed call is repeated. Each
// error is only a hint for the owner, which must recognize the quoted packet as its own.
type socketErrors struct {
	mu      sync.Mutex                               // one goroutine at a time reads the queue
	count   int                                      // guarded by mu: errors read
	refused func(to netip.AddrPort, datagram []byte) // set once
	room    [quoted]byte                             // guarded by mu, as is control
	control [512]byte
}

// quoted is the useful length of a quoted packet, which includes its BTH.
const quoted = 64

// OnRefused sets the callback for packets to closed ports: it gets the destination and the
// datagram's beginning, valid during the call. Call OnRefused before the first Send and Receive.
// f MUST NOT block or call methods of s.
func (s *Socket) OnRefused(f func(to netip.AddrPort, datagram []byte)) { s.errs.refused = f }

// wantErrors makes the kernel queue ICMP errors.
func wantErrors(fd int, six bool) error {
	if six {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1)
}

// explain reports whether a system call failed with errno because of a queued ICMP error. This is
// certain for ECONNREFUSED. Any other errno is explained if errors were read since *seen was set.
// explain empties the queue.
func (e *socketErrors) explain(fd uintptr, errno syscall.Errno, seen *int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.read(fd) {
	}
	some := e.count != *seen
	*seen = e.count
	return some || errno == unix.ECONNREFUSED
}

// read takes one error from the queue, and reports whether there was one. The caller holds mu.
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
			continue // from a call of ours, which has returned it
		}
		e.count++
		if syscall.Errno(ee.Errno) == unix.ECONNREFUSED && e.refused != nil {
			e.refused(source(&name), e.room[:n])
		}
	}
	return true
}
