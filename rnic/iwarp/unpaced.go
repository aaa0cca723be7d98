// Congestion control of connections inside of one machine.

package iwarp

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// plainControl is a congestion control that sets no pace, and that every kernel has and lets every program have.
const plainControl = "reno"

// unpace takes the kernel's pacing from a connection whose two ends are on this machine: with BBR a timer lets each packet go, and on a
// virtual machine to set one costs as much as to send 64 KiB. There is no link between the two that could be congested. Others keep what
// the machine's administrator has chosen. Where it cannot be had the connection is as good as before.
func unpace(c *net.TCPConn, rc syscall.RawConn) {
	if !sameMachine(c.LocalAddr(), c.RemoteAddr()) {
		return
	}
	_ = rc.Control(func(fd uintptr) {
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, plainControl)
	})
}

// sameMachine reports whether two ends of a connection are known to be on one machine.
func sameMachine(local, remote net.Addr) bool {
	l, ok := local.(*net.TCPAddr)
	r, also := remote.(*net.TCPAddr)
	return ok && also && (r.IP.IsLoopback() || l.IP.Equal(r.IP))
}
