// Listening that refuses connections at once while there is no file descriptor for them.

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

// A ListenConfig opens listeners whose lines in the log go to a Logger. The zero value is that of
// Listen and ListenOn.
type ListenConfig struct {
	// Logger takes a line, at most one a second, for connections that are refused because there are
	// no file descriptors left. nil: slog.Default().
	Logger *slog.Logger
}

// Listen is net.Listen over TCP, with an Accept for servers that may run out of file
// descriptors: it keeps one in reserve, and with it takes a connection that there is no
// room for and closes it. Without that the connection would stay in the kernel's queue,
// and its client wait for an answer until it gives up. 0.0.0.0 is all of IPv4 and
// nothing else; :: is IPv6 and IPv4, or IPv4 where there is no IPv6. An address that this machine
// does not have yet is listened on, and served once it has it.
func Listen(addr string) (net.Listener, error) { return ListenConfig{}.Listen(addr) }

// Listen is the function Listen.
func (lc ListenConfig) Listen(addr string) (net.Listener, error) {
	// Of several paths only the first one's ports would be known: whose the peer's socket
	// is (see Owner), and whether its port is a reserved one, holds for a single path.
	c := net.ListenConfig{Control: anyAddress}
	c.SetMultipathTCP(false)
	network, addr := listenAt("tcp", addr)
	l, err := c.Listen(context.Background(), network, addr)
	if err != nil {
		return nil, err
	}
	return lc.ListenOn(l), nil
}

// ListenUDP opens a socket for ServeUDP, at the addresses that Listen takes.
func ListenUDP(addr string) (*net.UDPConn, error) {
	network, addr := listenAt("udp", addr)
	c := net.ListenConfig{Control: anyAddress}
	pc, err := c.ListenPacket(context.Background(), network, addr)
	if err != nil {
		return nil, err
	}
	return pc.(*net.UDPConn), nil
}

// anyAddress lets a socket have an address that the machine does not have (yet).
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

// listenAt is what package net has to be asked for: by itself it takes IPv6 in for 0.0.0.0, and
// fails for [::] where the kernel has no IPv6.
func listenAt(network, addr string) (string, string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return network, addr
	}
	switch a, err := netip.ParseAddr(host); {
	case err != nil: // a name
	case a.Unmap().Is4():
		network += "4"
	case a.IsUnspecified():
		addr = ":" + port
	}
	return network, addr
}

// ListenOn is Listen on what another has opened, such as a service manager, and closes in the end.
// It MUST be of plain TCP.
func ListenOn(l net.Listener) net.Listener { return ListenConfig{}.ListenOn(l) }

// ListenOn is the function ListenOn.
func (lc ListenConfig) ListenOn(l net.Listener) net.Listener {
	return &reserveListener{Listener: l, reserve: openReserve(), log: RateLog{Logger: lc.Logger}}
}

// A reserveListener is used by one goroutine at a time but for Close and Addr.
type reserveListener struct {
	net.Listener
	reserve *os.File // nil while its place is free, or somebody else's
	log     RateLog
}

// openReserve opens what needs nothing but a descriptor; nil where there is none.
func openReserve() *os.File {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return nil
	}
	return f
}

var _ syscall.Conn = (*reserveListener)(nil)

// SyscallConn is for options of the socket: package iwarp has some.
func (l *reserveListener) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := l.Listener.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Accept returns the next connection for which there is a descriptor, and one in
// reserve for the next that there is none for.
func (l *reserveListener) Accept() (net.Conn, error) {
	for {
		if l.reserve == nil {
			l.reserve = openReserve()
		}
		c, err := l.Listener.Accept()
		if err != nil && full(err) {
			// The connection that waits, or the next, gets the place of the reserve.
			if l.reserve != nil {
				l.reserve.Close()
				l.reserve = nil
				c, err = l.Listener.Accept()
			}
			if err != nil && full(err) { // somebody else was quicker
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

// full reports whether err is that there are no descriptors left, in the process or on the machine.
func full(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
