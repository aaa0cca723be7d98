// Congestion control of connections within one machine.

package iwarp

import (
	"context"
	"net"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// With BBR the kernel paces a connection: a timer releases each packet, and on a virtual machine
// setting a timer costs as much as sending 64 KiB. Between two ends on one machine nothing can be
// congested, so their connections are not paced. Other connections keep the administrator's choice.
// A socket that was paced once stays paced, so pacing is switched off before the socket connects,
// and for accepted connections on the listening socket.

// paces reports whether the named congestion control paces.
func paces(control string) bool { return strings.HasPrefix(control, "bbr") }

func control(fd uintptr) string {
	name, _ := unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	return name
}

func setControl(fd uintptr, name string) error {
	return unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
}

// unpace switches pacing off for an unconnected socket, and returns the former congestion control,
// empty if unchanged.
func unpace(rc syscall.RawConn) (had string) {
	_ = rc.Control(func(fd uintptr) {
		if name := control(fd); paces(name) && setControl(fd, plainControl) == nil {
			had = name
		}
	})
	return had
}

// mayHave reports whether this process may give sockets of a domain a congestion control. A
// listener made by another process, such as a service manager, can have a congestion control that
// needs privileges.
var mayHave = func(domain int, name string) bool {
	fd, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return setControl(uintptr(fd), name) == nil
}

// canPace reports whether pace could restore a socket's congestion control.
func canPace(rc syscall.RawConn) (can bool) {
	_ = rc.Control(func(fd uintptr) {
		domain, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN)
		can = err == nil && mayHave(domain, control(fd))
	})
	return can
}

// unpaceListener is unpace for a listener's socket, if pace can restore the congestion control for
// connections from elsewhere.
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

// unpaceDialed is unpace for net.Dialer, if the socket is about to connect to this machine.
func unpaceDialed(_, address string, rc syscall.RawConn) error {
	host, _, _ := net.SplitHostPort(address)
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		unpace(rc)
	}
	return nil
}

// dial is used for a DeviceConfig without Dial.
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Control: unpaceDialed}
	return d.DialContext(ctx, network, addr)
}

// pace gives an accepted connection the former congestion control of the listening socket, unless
// its other end is on this machine.
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
		if control(fd) == plainControl { // not another congestion control, set for its route
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
