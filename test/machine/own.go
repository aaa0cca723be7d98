// Ports and addresses reserved for a test: go test runs several packages concurrently, and each
// package listens.

package machine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// wellKnown are ports of programs with fixed ports in the range of fixedPorts: NFS over RDMA and
// MOUNT, and the pingpongs.
var wellKnown = []int{20048, 20049, 18515}

// tries limits the ports or addresses tried before the test fails. Nearly always the first is free.
const tries = 1000

// reserve reserves a name until release is called. release is nil if another process has the name.
// Each network namespace has one set of abstract socket names, as of ports, and the kernel frees a
// killed process's names.
func reserve(name string) (release func(), err error) {
	l, err := net.Listen("unix", "@nfsrdma-test/"+name)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	reserved.Store(l, nil)
	return func() {
		l.Close()
		reserved.Delete(l)
	}, nil
}

// reserved keeps the sockets of this process's reservations reachable; the garbage collector would
// close them.
var reserved sync.Map

// Port reserves a port, like ReservePort, until the test ends.
func Port(t testing.TB) int {
	t.Helper()
	port, release, err := ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return port
}

// ReservePort returns a port for TCP and UDP that must be known before a server listens on it. No
// program listens on the port now at any address. No other test gets the port until release is
// called, which may be repeated. And the kernel assigns the port to no connection, because it is
// below the ephemeral range.
func ReservePort() (port int, release func(), err error) {
	first, end := fixedPorts()
	for range tries {
		port := first + rand.IntN(end-first)
		if slices.Contains(wellKnown, port) {
			continue
		}
		release, err := reserve(fmt.Sprint("port/", port))
		if err != nil {
			return 0, nil, err
		}
		if release == nil {
			continue
		}
		if idle(port) { // reserve comes first, because idle listens on the port
			return port, release, nil
		}
		release()
	}
	return 0, nil, errors.New("there is no free port")
}

// fixedPorts returns a range of unprivileged ports outside the kernel's ephemeral range.
func fixedPorts() (first, end int) {
	const least, most = 10000, 32768
	low := most
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if _, err := fmt.Sscan(string(text), &low); err != nil {
			low = most
		}
	}
	if low <= least+1000 { // nearly all ports are ephemeral: accept the risk
		return least, most
	}
	return least, min(low, most)
}

// idle reports whether no program listens on a port.
func idle(port int) bool {
	at := fmt.Sprint(":", port)
	l, err := net.Listen("tcp", at)
	if err != nil {
		return false
	}
	defer l.Close()
	c, err := net.ListenPacket("udp", at)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// Addr returns an address in 127.0.0.0/8 that no other test gets until this test ends. RoCE has one
// UDP port per address. RoCE clients choose their own addresses from another range.
func Addr(t testing.TB) netip.Addr {
	t.Helper()
	for range tries {
		a := netip.AddrFrom4([4]byte{127, byte(128 + rand.IntN(64)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))})
		release, err := reserve("address/" + a.String())
		if err != nil {
			t.Fatal(err)
		}
		if release != nil {
			t.Cleanup(release)
			return a
		}
	}
	t.Fatal("there is no free address")
	return netip.Addr{}
}
