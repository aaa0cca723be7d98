// Ports and addresses of a test's own: go test runs several packages at once, and each of them
// listens.

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

// wellKnown are ports in that range where programs listen that cannot be told another one: NFS over
// RDMA and MOUNT, and the pingpongs.
var wellKnown = []int{20048, 20049, 18515}

// tries is how many ports or addresses are looked at before the test fails. Nearly always it is
// one.
const tries = 1000

// reserve takes a name until release is called, which is nil if somebody else has it. Each network
// namespace has one set of abstract socket names, as it has of ports, and the kernel frees those of
// a process that is killed.
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

// reserved are the sockets of what is reserved here. One that is only forgotten the garbage
// collector would close.
var reserved sync.Map

// Port is what ReservePort gives, until the test ends.
func Port(t testing.TB) int {
	t.Helper()
	port, release, err := ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return port
}

// ReservePort gives a port of TCP and UDP to who has to name one before anybody listens there.
// Nobody does now, at any address; no other test is given it until release is called, which may be
// called more than once; and the kernel gives it to no connection, since it is below those that it
// chooses.
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
		if idle(port) { // not the other way round: to look is to listen
			return port, release, nil
		}
		release()
	}
	return 0, nil, errors.New("there is no free port")
}

// fixedPorts is a range of ports without privilege that the kernel does not choose from.
func fixedPorts() (first, end int) {
	const least, most = 10000, 32768
	low := most
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if _, err := fmt.Sscan(string(text), &low); err != nil {
			low = most
		}
	}
	if low <= least+1000 { // nearly all are the kernel's to choose: that has to be risked
		return least, most
	}
	return least, min(low, most)
}

// idle reports whether nobody listens at a port.
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

// Addr is an address of 127.0.0.0/8 that no other test is given until this one ends. Of each
// address there is one UDP port for RoCE. Those that clients of RoCE choose themselves are others.
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
