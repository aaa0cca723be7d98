// Listeners that refuse connections immediately when file descriptors run out.

package transport

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A ListenConfig opens listeners that log to a Logger. The zero value is used by Listen and
// ListenOn.
type ListenConfig struct {
	// Logger gets at most one line a second about connections refused for lack of file
	// descriptors. nil: slog.Default().
	Logger *slog.Logger
}

// Listen is net.Listen over TCP with an Accept for servers that may run out of file descriptors.
// The listener keeps one descriptor in reserve, to accept and close a connection without room.
// Otherwise the connection would stay in the kernel's queue and its client wait for a timeout.
// 0.0.0.0 means IPv4 only; :: means IPv6 and IPv4, or IPv4 on a machine without IPv6. addr need not
// exist yet: the listener serves addr as soon as the machine has it.
func Listen(addr string) (net.Listener, error) { return ListenConfig{}.Listen(addr) }

// Listen is the function Listen, with lc's Logger.
func (lc ListenConfig) Listen(addr string) (net.Listener, error) {
	// Without multipath TCP: only the first path's ports would be known, but the owner lookup
	// (see Owner) and the check for reserved ports need a single path.
	c := net.ListenConfig{Control: anyAddress}
	c.SetMultipathTCP(false)
	network, addr := listenAt("tcp", addr)
	l, err := c.Listen(context.Background(), network, addr)
	if err != nil {
		return nil, err
	}
	return lc.ListenOn(l), nil
}

// ListenUDP opens a socket for ServeUDP, on the addresses that Listen takes.
func ListenUDP(addr string) (*net.UDPConn, error) {
	network, addr := listenAt("udp", addr)
	c := net.ListenConfig{Control: anyAddress}
	pc, err := c.ListenPacket(context.Background(), network, addr)
	if err != nil {
		return nil, err
	}
	return pc.(*net.UDPConn), nil
}

// anyAddress permits binding to an address that the machine does not have yet.
func anyAddress(network, _ string, c syscall.RawConn) (err error) {
	level, option := unix.SOL_IP, unix.IP_FREEBIND
	if strings.HasSuffix(network, "6") {
		level, option = unix.SOL_IPV6, unix.IPV6_FREEBIND
	}
	if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, 1) }); e != nil {
		return e
	}
	return err
}

// listenAt returns the arguments for package net, which by default includes IPv6 for 0.0.0.0, and
// fails for [::] on a kernel without IPv6.
func listenAt(network, addr string) (string, string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return network, addr
	}
	switch a, err := netip.ParseAddr(host); {
	case err != nil: // a host name
	case a.Unmap().Is4():
		network += "4"
	case a.IsUnspecified():
		addr = ":" + port
	}
	return network, addr
}

// ListenOn is Listen for an already open listener, such as a service manager's; Close also closes
// l. l MUST be plain TCP.
func ListenOn(l net.Listener) net.Listener { return ListenConfig{}.ListenOn(l) }

// ListenOn is the function ListenOn, with lc's Logger.
func (lc ListenConfig) ListenOn(l net.Listener) net.Listener {
	return &reserveListener{Listener: l, reserve: openReserve(), log: RateLog{Logger: lc.Logger}}
}

// A reserveListener is for one goroutine at a time, except Close and Addr.
type reserveListener struct {
	net.Listener
	reserve *os.File // nil while released, or while no descriptor is free
	log     RateLog
}

// openReserve opens a file to occupy a descriptor; nil if no descriptor is free.
func openReserve() *os.File {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return nil
	}
	return f
}

var _ syscall.Conn = (*reserveListener)(nil)

// SyscallConn gives access to socket options, for package iwarp.
func (l *reserveListener) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := l.Listener.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Accept returns the next connection that leaves a descriptor in reserve. If no other descriptor is
// free, Accept uses the reserve to accept and close the connection.
func (l *reserveListener) Accept() (net.Conn, error) {
	for {
		if l.reserve == nil {
			l.reserve = openReserve()
		}
		c, err := l.Listener.Accept()
		if err != nil && full(err) {
			// The waiting connection, or the next, gets the reserve's descriptor.
			if l.reserve != nil {
				l.reserve.Close()
				l.reserve = nil
				c, err = l.Listener.Accept()
			}
			if err != nil && full(err) { // another goroutine took the descriptor
				time.Sleep(acceptBackoff)
				continue
			}
		}
		if err != nil {
			if l.reserve != nil {
				l.reserve.Close()
				l.reserve = nil
			}
			return nil, err
		}
		if l.reserve != nil {
			return c, nil
		}
		if l.reserve = openReserve(); l.reserve != nil {
			return c, nil
		}
		l.log.Warn("connection refused: there are no file descriptors left", "peer", c.RemoteAddr())
		c.Close()
	}
}

// full reports whether err means that the process or machine has no descriptors left.
func full(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
