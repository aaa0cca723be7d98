// An address's canonical form.

package roce

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
)

// TestCanonical: only IPv6 link-local addresses have a zone, which is an interface's name.
func TestCanonical(t *testing.T) {
	list, err := net.Interfaces()
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	lo := list[0]
	for from, want := range map[string]string{"fe80::1%1": "fe80::1%" + lo.Name, "fe80::1%" + lo.Name: "fe80::1%" + lo.Name, "fe80::1": "fe80::1",
		"2001:db8::1%" + lo.Name: "2001:db8::1", "::ffff:192.0.2.1": "192.0.2.1", "169.254.1.1": "169.254.1.1"} {
		if lo.Index != 1 && from == "fe80::1%1" {
			continue
		}
		if got := canonical(netip.MustParseAddr(from)); got != netip.MustParseAddr(want) {
			t.Errorf("%s is %v, want %s", from, got, want)
		}
	}
}

// TestRemoteAddrAndSockets: RemoteAddr is the client's own address. For a client with a spare
// loopback address it is the address that the client called; a link-local client's has the zone.
// Sockets returns the addresses of existing sockets.
func TestRemoteAddrAndSockets(t *testing.T) {
	for _, c := range []struct{ at, from, want, socket string }{
		{"127.0.0.1", "127.64.1.3", "127.0.0.1", "127.64.1.3"},
		{"10.91.7.1", "127.127.255.255", "10.91.7.1", "127.127.255.255"},
		{"10.91.7.1", "127.63.255.255", "127.63.255.255", "127.63.255.255"},
		{"127.0.0.1", "127.128.0.1", "127.128.0.1", "127.128.0.1"},
		{"10.91.7.1", "10.91.7.2", "10.91.7.2", "10.91.7.2"},
		{"fe80::1%eth7", "fe80::2", "fe80::2%eth7", "fe80::2%eth7"},
		{"2001:db8::1", "2001:db8::2", "2001:db8::2", "2001:db8::2"},
	} {
		p := &port{key: netip.AddrPortFrom(netip.MustParseAddr(c.at), UDPPort)}
		l := &listener{ready: make(chan *connRequest, 1)}
		from := netip.MustParseAddr(c.from)
		manager := cm.New(cm.Config{Addr: p.key.Addr(), GUID: 1, MTU: 3, Rand: random64})
		k, err := manager.Connect(1, cm.Request{Peer: from, Local: cm.QP{QPN: 2, PathMTU: 3}})
		if err != nil {
			t.Fatalf("Connect: %v", err)
		}
		p.control.t = p
		if !l.enqueue(&p.control, &cm.Event{Conn: k, Source: netip.AddrPortFrom(from, 7)}) {
			t.Fatal("the listener has no room")
		}
		r := <-l.ready
		if got, want := r.RemoteAddr().String(), netip.AddrPortFrom(netip.MustParseAddr(c.want), 7).String(); got != want {
			t.Errorf("%s at %s: RemoteAddr is %s, want %s", c.from, c.at, got, want)
		}
		if _, got := r.Sockets(); got.Addr() != netip.MustParseAddr(c.socket) {
			t.Errorf("%s at %s has the socket %v, want one at %s", c.from, c.at, got, c.socket)
		}
	}
}

// TestHostAddrs: a host's addresses include its link-local ones, with zones, without duplicates.
func TestHostAddrs(t *testing.T) {
	here, _, _ := twoHosts(t)
	for all, six := range map[string]bool{"0.0.0.0": false, "::": true} {
		list, err := hostAddrs(netip.MustParseAddr(all))
		if err != nil {
			t.Fatalf("hostAddrs: %v", err)
		}
		n := make(map[netip.Addr]int)
		links := 0
		for _, a := range list {
			n[a]++
			if a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "pair0" {
				links++
			}
		}
		for a, times := range n {
			if times != 1 {
				t.Errorf("%s: %v is listed %d times", all, a, times)
			}
		}
		if n[here[0]] != 1 || (n[here[1]] == 1) != six || (links == 1) != six {
			t.Errorf("%s: %v", all, list)
		}
	}
}

// TestPortOfAnotherProcess: if another socket has the RoCE port, connecting to another host fails
// with the reason and uses no other source address; a host reached by another address still
// works.
func TestPortOfAnotherProcess(t *testing.T) {
	here, there, inOther := twoHosts(t)
	for i, at := range here {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, UDPPort)))
		if err != nil {
			t.Fatalf("ListenUDP: %v", err)
		}
		defer c.Close()
		dev := Open(rnic.DeviceConfig{})
		s := newSide(t, dev, rnic.RC)
		err = dev.Connect(t.Context(), s.qp, netip.AddrPortFrom(there[i], service).String(), rnic.ConnParams{})
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatalf("%v: %v, want %v", at, err, syscall.EADDRINUSE)
		}
		if want := fmt.Sprintf("UDP port %d of %v is in use by another process", UDPPort, at); !strings.Contains(err.Error(), want) {
			t.Errorf("%q, want it to say %q", err, want)
		}
	}
	var l rnic.Listener
	inOther(func() { l = listenAt(t, netip.AddrPortFrom(there[0], service)) })
	inNetwork(t, "ip addr add 10.91.7.3/24 dev pair0", "ip route add 10.91.7.2 dev pair0 src 10.91.7.3")
	dev := Open(rnic.DeviceConfig{})
	s := newSide(t, dev, rnic.RC)
	accepted := make(chan error)
	go func() { accepted <- acceptOne(t, l) }()
	if err := dev.Connect(t.Context(), s.qp, netip.AddrPortFrom(there[0], service).String(), rnic.ConnParams{}); err != nil {
		t.Fatalf("Connect: %v", err)
	}
	if err := <-accepted; err != nil {
		t.Errorf("accepted: %v", err)
	}
	if got := s.qp.LocalAddr().String(); got != "10.91.7.3:4791" {
		t.Errorf("the connection is from %s, want 10.91.7.3:4791", got)
	}
}

// listenAt listens until the test ends.
func listenAt(t *testing.T, at netip.AddrPort) rnic.Listener {
	l, err := Open(rnic.DeviceConfig{}).Listen("udp", at.String())
	if err != nil {
		t.Errorf("listen at %v: %v", at, err)
		return nil
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// acceptOne accepts the next connection request.
func acceptOne(t *testing.T, l rnic.Listener) error {
	req, err := l.Accept(t.Context())
	if err != nil {
		return err
	}
	return req.Accept(newSide(t, Open(rnic.DeviceConfig{}), rnic.RC).qp, rnic.ConnParams{})
}
