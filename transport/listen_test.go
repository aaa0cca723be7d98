// Accept without free descriptors: returned and closed connections, and recovery.

package transport

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// A shortListener returns a script's results, each an error or a connection.
type shortListener struct {
	net.Listener
	script []any
	before func() // each Accept
}

func (l *shortListener) Accept() (net.Conn, error) {
	l.before()
	next := l.script[0]
	l.script = l.script[1:]
	if c, ok := next.(net.Conn); ok {
		return c, nil
	}
	return nil, next.(error)
}

// TestListenAtTheLimit: without a free descriptor in process or machine, the reserve's is used
// for the next connection.
func TestListenAtTheLimit(t *testing.T) {
	for _, cause := range []error{syscall.EMFILE, syscall.ENFILE} {
		a, b := net.Pipe()
		defer b.Close()
		full := &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", cause)}
		below := &shortListener{script: []any{full, full, full, a, errors.New("ended")}}
		l := &reserveListener{Listener: below, reserve: openReserve()}
		var had []bool
		below.before = func() { had = append(had, l.reserve != nil) }
		c, err := l.Accept()
		if c != a || err != nil {
			t.Fatalf("%v: %v, %v", cause, c, err)
		}
		if want := [4]bool{true, false, true, false}; len(had) != 4 || [4]bool(had) != want {
			t.Errorf("%v: reserve at each Accept: %v, want %v", cause, had, want)
		}
		if l.reserve == nil {
			t.Error("no reserve for the next one")
		}
		if _, err := l.Accept(); err == nil || l.reserve != nil {
			t.Errorf("at the end: %v, reserve kept: %t", err, l.reserve != nil)
		}
		a.Close()
	}
}

// TestListenersShowTheirSocket: socket options reach the underlying listener; a listener without
// a socket reports that.
func TestListenersShowTheirSocket(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	rc, err := l.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatalf("SyscallConn: %v", err)
	}
	err = rc.Control(func(fd uintptr) {
		at, err := unix.Getsockname(int(fd))
		in, ok := at.(*unix.SockaddrInet4)
		must.Succeed(t, err)
		must.Equal(t, "ok", ok, true)
		must.Equal(t, "in.Port", in.Port, l.Addr().(*net.TCPAddr).Port)
	})
	if err != nil {
		t.Errorf("Control: %v", err)
	}
	if _, err := ListenOn(&shortListener{}).(syscall.Conn).SyscallConn(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a listener without a socket: %v", err)
	}
}

// TestListenHasOnePath: a connection has one pair of ports, for the kernel's owner lookup.
func TestListenHasOnePath(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	raw, err := l.(*reserveListener).Listener.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatalf("SyscallConn: %v", err)
	}
	protocol := 0
	control := raw.Control(func(fd uintptr) { protocol, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL) })
	if control != nil {
		t.Fatalf("control: %v, want nil", control)
	}
	must.Succeed(t, err)
	must.Equal(t, "protocol", protocol, unix.IPPROTO_TCP)
}

// TestListenFamilies: 0.0.0.0 means only IPv4, :: means both, over TCP and UDP.
func TestListenFamilies(t *testing.T) {
	open := func(network, addr string) (net.Addr, func() error) {
		t.Helper()
		if network == "udp" {
			c, err := ListenUDP(addr)
			if err != nil {
				t.Fatalf("ListenUDP: %v", err)
			}
			return c.LocalAddr(), c.Close
		}
		l, err := Listen(addr)
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		return l.Addr(), l.Close
	}
	for addr, want := range map[string]string{"0.0.0.0:0": "0.0.0.0", "[::ffff:0.0.0.0]:0": "0.0.0.0", "127.0.0.1:0": "127.0.0.1",
		"[::]:0": "::", ":0": "::", "[::1]:0": "::1", "localhost:0": "127.0.0.1"} {
		for _, network := range []string{"tcp", "udp"} {
			at, end := open(network, addr)
			host, port, _ := net.SplitHostPort(at.String())
			if host != want {
				t.Errorf("%s at %s: on %s", network, addr, at)
			}
			// A socket that also has the port for IPv6 blocks another there.
			other, err := net.Listen("tcp6", net.JoinHostPort("::", port))
			if network == "udp" {
				var c net.PacketConn
				if c, err = net.ListenPacket("udp6", net.JoinHostPort("::", port)); err == nil {
					c.Close()
				}
			}
			if other != nil {
				other.Close()
			}
			if free := err == nil; free == (want == "::") && want != "::1" {
				t.Errorf("%s at %s: that port is free over IPv6: %t", network, addr, free)
			}
			end()
		}
	}
	for _, addr := range []string{"24", "127.0.0.1", "127.0.0.1:x", "nowhere.invalid:0"} {
		if _, err := Listen(addr); err == nil {
			t.Errorf("%s is listened at", addr)
		}
		if _, err := ListenUDP(addr); err == nil {
			t.Errorf("%s is listened at over UDP", addr)
		}
	}
}
