// No two tests get the same port or address, and a test can listen at its ports.

package machine

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
)

// TestOwn: while a test has a port or an address, no other gets it. Afterwards it may be given
// again.
func TestOwn(t *testing.T) {
	ports, addrs := map[int]bool{}, map[netip.Addr]bool{}
	const each = 200
	first, end := fixedPorts()
	for range each {
		port, addr := Port(t), Addr(t)
		if port < first || port >= end || !addr.IsLoopback() {
			t.Errorf("%d, %v", port, addr)
		}
		ports[port], addrs[addr] = true, true
	}
	if len(ports) != each || len(addrs) != each {
		t.Errorf("%d ports and %d addresses of %d", len(ports), len(addrs), each)
	}
	name := "once/" + fmt.Sprint(Port(t)) // of this process alone
	release, err := reserve(name)
	if err != nil || release == nil {
		t.Fatal("not given at all", err)
	}
	if second, err := reserve(name); err != nil || second != nil {
		t.Error("given twice", err)
	}
	release()
	release()
	if release, err = reserve(name); err != nil || release == nil {
		t.Fatal("not given again", err)
	}
	release()
}

// TestPortIsIdle: a port is not given while another program listens there, at one address, by TCP
// or UDP.
func TestPortIsIdle(t *testing.T) {
	at := fmt.Sprint(Addr(t), ":", Port(t))
	_, text, _ := net.SplitHostPort(at)
	var port int
	if _, err := fmt.Sscan(text, &port); err != nil {
		t.Fatal(err)
	}
	if !idle(port) {
		t.Error("it was not idle at once")
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	if idle(port) {
		t.Error("idle though somebody listens")
	}
	l.Close()
	c, err := net.ListenPacket("udp", at)
	if err != nil {
		t.Fatalf("net.ListenPacket: %v", err)
	}
	defer c.Close()
	if idle(port) {
		t.Error("idle though somebody takes datagrams")
	}
}
