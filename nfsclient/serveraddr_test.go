// A server that moves to a new address of its name.

package nfsclient

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
)

// useNames replaces the machine's name service for one test.
func useNames(t *testing.T) (set func(addrs ...string)) {
	t.Helper()
	was := resolve
	t.Cleanup(func() { resolve = was })
	var mu sync.Mutex
	var list []netip.Addr
	resolve = func(context.Context, string, string) ([]netip.Addr, error) {
		mu.Lock()
		defer mu.Unlock()
		if list == nil {
			return nil, errors.New("no name service")
		}
		return list, nil
	}
	return func(addrs ...string) {
		mu.Lock()
		defer mu.Unlock()
		list = nil
		for _, a := range addrs {
			list = append(list, netip.MustParseAddr(a))
		}
	}
}

// A Client's connections are cut, the old address is silent, and the name gets another address.
// From then on all connections use the new one.
func TestServerIsFollowedToItsNewAddress(t *testing.T) {
	set := useNames(t)
	set("127.0.0.2")
	var old, later atomic.Int32
	port := strconv.Itoa(machine.Port(t)) // this port is free at both addresses
	serveAt(t, "127.0.0.2:"+port, &old)
	var mu sync.Mutex
	var made []net.Conn
	gone := false
	opt := Options{Transport: TCP, Conns: 2, CallTimeout: transport.Hard}
	opt.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if host, _, _ := net.SplitHostPort(addr); gone && host == "127.0.0.2" {
			return nil, errors.New("no route to host")
		}
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		made = append(made, nc)
		return nc, err
	}
	c, err := Dial(t.Context(), "server:"+port, opt)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer c.Close()
	serveAt(t, "127.0.0.3:"+port, &later)
	set("127.0.0.3")
	mu.Lock()
	gone = true
	for _, nc := range made {
		nc.Close()
	}
	mu.Unlock()
	for range 4 {
		if err := c.Null(t.Context()); err != nil {
			t.Fatalf("null: %v", err)
		}
	}
	if later.Load() == 0 {
		t.Error("the server at the new address was not asked")
	}
	for _, l := range c.Links() {
		if l.Up && l.Addr != "127.0.0.3:"+port {
			t.Errorf("a connection is to %s", l.Addr)
		}
	}
	if _, err := c.Exports(t.Context()); err != nil {
		t.Errorf("another service of the server: %v", err)
	}
}

// A Client keeps its address while the name has it, whatever other addresses the name has, and also
// without a name service. An address that has never answered is not kept.
func TestHomeIsKept(t *testing.T) {
	set := useNames(t)
	h := &namedServer{name: "server"}
	h.settle("10.0.0.1")
	next := func(at, want string) {
		t.Helper()
		if got := h.Next(t.Context(), at); got != want {
			t.Errorf("after %s comes %s, want %s", at, got, want)
		}
	}
	next("10.0.0.1:2049", "10.0.0.1:2049") // without a name service
	set("10.0.0.7", "10.0.0.1")
	next("10.0.0.1:2049", "10.0.0.1:2049")
	set("10.0.0.8", "10.0.0.9")
	next("10.0.0.1:2049", "10.0.0.8:2049")
	next("10.0.0.1:2049", "10.0.0.8:2049") // another connection uses the new address too
	next("10.0.0.8:2049", "10.0.0.9:2049") // 10.0.0.8 has not answered, so it is not kept
	if err := h.Connected(t.Context(), "10.0.0.9:2049", nil); err != nil {
		t.Errorf("connected: %v", err)
	}
	next("10.0.0.9:2049", "10.0.0.9:2049")
	set("fd00::1")
	next("10.0.0.9:2049", "[fd00::1]:2049")
}

// All spellings of an address give the same result, because a server's record is found by its
// address.
func TestServerAddress(t *testing.T) {
	for given, want := range map[string]string{"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1",
		"FD00:0:0::1": "fd00::1", "fd00:0000::0001": "fd00::1", "fe80::01%eth0": "fe80::1%eth0"} {
		c := &Client{server: &namedServer{host: given}}
		if got := c.ServerAddress(); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}
