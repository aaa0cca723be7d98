// Nobody else is given what a test has, and ports can be listened at.

package machine

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
)

// TestOwn: each port and address is given once until the test ends that has it, and again afterwards.
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
	const name = "once"
	t.Run("inner", func(t *testing.T) {
		if !reserve(t, name) || reserve(t, name) {
			t.Error("not given once")
		}
	})
	if !reserve(t, name) {
		t.Error("not given again")
	}
}

// TestPortIsIdle: a port is not given while somebody listens there, at one address, by TCP or UDP.
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
		t.Fatal(err)
	}
	if idle(port) {
		t.Error("idle though somebody listens")
	}
	l.Close()
	c, err := net.ListenPacket("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if idle(port) {
		t.Error("idle though somebody takes datagrams")
	}
}
