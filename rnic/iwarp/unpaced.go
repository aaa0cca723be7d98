// Congestion control of connections inside of one machine.

package iwarp

import (
	"context"
	"net"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// With BBR for congestion control the kernel paces a connection: a timer lets each packet go, and
// on a virtual machine to set one costs as much as to send 64 KiB. Between two ends on one machine
// there is nothing that could be congested, so these do without. Others keep what the machine's
// administrator has chosen. A socket that was paced once stays so, whatever it is told: it has to
// be told before it is connected, or, of one that is accepted, the one that listens has.

// paces reports whether a congestion control is one that paces.
func paces(control string) bool { return strings.HasPrefix(control, "bbr") }

func control(fd uintptr) string {
	name, _ := unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	return name
}

func setControl(fd uintptr, name string) error {
	return unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
}

// unpace takes the pacing from a socket that is not connected, and returns what it had for
// congestion control, empty if that did not change.
func unpace(rc syscall.RawConn) (had string) {
	_ = rc.Control(func(fd uintptr) {
		if name := control(fd); paces(name) && setControl(fd, plainControl) == nil {
			had = name
		}
	})
	return had
}

// mayHave reports whether this process may give sockets of a domain a congestion control: a
// listener of somebody else's, such as a service manager, can have one that takes privileges.
var mayHave = func(domain int, name string) bool {
	fd, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return setControl(uintptr(fd), name) == nil
}

// canPace reports whether pace could give back what a socket has.
func canPace(rc syscall.RawConn) (can bool) {
	_ = rc.Control(func(fd uintptr) {
		domain, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
		can = err == nil && mayHave(domain, control(fd))
	})
	return can
}

// unpaceListener is unpace of the socket of a listener, if it is known, and connections from
// elsewhere can have back what that had.
func unpaceListener(nl net.Listener) (had string) {
	sc, ok := nl.(syscall.Conn)
	if !ok {
		return ""
	}
	rc, err := sc.SyscallConn()
	if err != nil || !canPace(rc) {
		return ""
	}
	return unpace(rc)
}

// unpaceDialed is for net.Dialer: of a socket that is about to be connected to this machine.
func unpaceDialed(_, address string, rc syscall.RawConn) error {
	host, _, _ := net.SplitHostPort(address)
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		unpace(rc)
	}
	return nil
}

// dial is DeviceConfig.Dial unless a program has its own.
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Control: unpaceDialed}
	return d.DialContext(ctx, network, addr)
}

// pace gives a connection that was accepted the congestion control that the socket which listens
// had, unless its other end is on this machine.
func pace(c net.Conn, had string) {
	sc, ok := c.(syscall.Conn)
	if had == "" || !ok || sameMachine(c.LocalAddr(), c.RemoteAddr()) {
		return
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return
	}
	_ = rc.Control(func(fd uintptr) {
		if control(fd) == plainControl { // and not another one, of its route
			_ = setControl(fd, had)
		}
	})
}

// sameMachine reports whether two ends of a connection are known to be on one machine.
func sameMachine(local, remote net.Addr) bool {
	l, ok := local.(*net.TCPAddr)
	r, also := remote.(*net.TCPAddr)
	return ok && also && (r.IP.IsLoopback() || l.IP.Equal(r.IP))
}
