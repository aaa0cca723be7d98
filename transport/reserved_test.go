// TCP clients' source ports: reserved ones if available.

package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// portOf returns the source port of a dialReserved connection.
func portOf(t *testing.T, addr string) (port int, c net.Conn) {
	t.Helper()
	c, err := dialReserved(bg, "tcp", addr)
	if err != nil {
		t.Fatalf("dialReserved: %v", err)
	}
	return c.LocalAddr().(*net.TCPAddr).Port, c
}

func TestReservedPort(t *testing.T) {
	machine.NeedRoot(t, "runs processes of several users: needs root")
	rnictest.OwnNetwork(t)
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		defer l.Close()
		seen := map[int]bool{}
		for range 8 { // all exist at once, so the ports differ
			port, c := portOf(t, l.Addr().String())
			defer c.Close()
			if port >= 1024 || port < 512 || seen[port] || slices.Contains(wellKnown, port) {
				t.Errorf("port %d", port)
			}
			seen[port] = true
		}
	}
}

// TestReservedPortsAreNotAllTaken: with all reserved ports in use, a connection comes from an
// ordinary port.
func TestReservedPortsAreNotAllTaken(t *testing.T) {
	machine.NeedRoot(t, "runs processes of several users: needs root")
	rnictest.OwnNetwork(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	for p := reservedFirst; p <= reservedLast; p++ {
		if taken, err := net.Listen("tcp", ":"+strconv.Itoa(p)); err == nil {
			defer taken.Close()
		}
	}
	port, c := portOf(t, l.Addr().String())
	defer c.Close()
	if port < 1024 {
		t.Errorf("port %d", port)
	}
}

// TestReservedOnly: the only free port is found, and without one there is no connection.
func TestReservedOnly(t *testing.T) {
	machine.NeedRoot(t, "runs processes of several users: needs root")
	rnictest.OwnNetwork(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	const free = 777
	for p := reservedFirst; p <= reservedLast; p++ {
		if p == free {
			continue
		}
		taken, err := net.Listen("tcp", ":"+strconv.Itoa(p))
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		defer taken.Close()
	}
	c, err := dialReservedOnly(bg, "tcp", l.Addr().String())
	if err != nil {
		t.Fatalf("dialReservedOnly: %v", err)
	}
	defer c.Close()
	if port := c.LocalAddr().(*net.TCPAddr).Port; port != free {
		t.Errorf("port %d", port)
	}
	if _, err := dialReservedOnly(bg, "tcp", l.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("with none free: %v", err)
	}
}

// TestReservedPortIsOptional: a server's refusal is reported, and a process without the right to
// bind still connects.
func TestReservedPortIsOptional(t *testing.T) {
	addr := fmt.Sprint("127.0.0.1:", machine.Port(t))
	if _, err := dialReserved(bg, "tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody listens: %v", err)
	}
	machine.NeedRoot(t, "runs processes of several users: needs root")
	tcp, _ := serveOwners(t, ServerConfig{}, "127.0.0.1:0")
	if got := asUser(t, 1000, "reserved", tcp); got != "uid 1000 of this machine" {
		t.Errorf("as a user: %q", got)
	}
}

// TestDialReservedPort: DialTCP uses a reserved port if configured.
func TestDialReservedPort(t *testing.T) {
	machine.NeedRoot(t, "runs processes of several users: needs root")
	rnictest.OwnNetwork(t)
	p := &Program{Name: "PORT", Number: testProg, Version: testVers, Procs: []Procedure{1: {Name: "PORT", Run: func(c *Call) error {
		c.Res.String(c.Remote.String())
		return nil
	}}}}
	s := NewServer(ServerConfig{}, p)
	addr, done, err := listenTCP(s, "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listenTCP: %v", err)
	}
	defer shutdown(t, s, done)
	for _, reserved := range []bool{true, false} {
		c, err := DialTCP(context.Background(), addr, ClientConfig{ReservedPort: reserved})
		if err != nil {
			t.Fatalf("DialTCP: %v", err)
		}
		from := askOwner(c)
		c.Close()
		port, err := strconv.Atoi(from[strings.LastIndex(from, ":")+1:])
		if err != nil || (port < 1024) != reserved {
			t.Errorf("reserved %t: from %s", reserved, from)
		}
	}
}
