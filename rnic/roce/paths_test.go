// Packet length limits by peer: values, lifetime, and requests accepted in spite of them.

package roce

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// TestLowerMTUs: each limit is below the lost length, down to the shortest path MTU.
func TestLowerMTUs(t *testing.T) {
	for lost, want := range map[int]int{4096: 1024, 2048: 1024, 1500: 1024, 1025: 1024, 1024: 256, 257: 256} {
		if got := shorter(lost); got != want {
			t.Errorf("after %d bytes %d, want %d", lost, got, want)
		}
	}
}

// known returns a peer's limit.
func (x *paths) known(peer netip.Addr) path {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.all[peer]
}

// TestLimits: the shortest limit applies, for pathTime, and only to its peer. Without a limit,
// loopback takes the longest packets.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x paths
		local := &port{key: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), UDPPort)}
		peer, other := netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")
		want := func(of netip.Addr, most int) {
			t.Helper()
			if got := x.mostTo(local, of); got != most {
				t.Errorf("%v: %d, want %d", of, got, most)
			}
		}
		want(peer, 4096)
		x.limit(peer, 1024)
		x.limit(peer, 256)
		x.limit(peer, 1024)
		want(peer, 256)
		want(other, 4096)
		time.Sleep(time.Duration(pathTime) - 1)
		want(peer, 256)
		time.Sleep(time.Nanosecond)
		want(peer, 4096)
		x.limit(peer, 1024) // the expired 256 has no effect
		want(peer, 1024)
	})
}

// TestSmallestLimitApplies: a learned limit has no effect if the interface takes less. Without a
// route to the peer the interface decides.
func TestSmallestLimitApplies(t *testing.T) {
	here, there, _ := twoHosts(t)
	var x paths
	for i, way := range []struct{ mtu, want int }{{1500, 1024}, {600, 512}, {9000, 1024}} {
		inNetwork(t, fmt.Sprintf("ip link set pair0 mtu %d", max(way.mtu, 1280)), fmt.Sprintf("ip route replace 10.91.7.0/24 dev pair0 mtu lock %d", way.mtu))
		if i == 1 {
			x.limit(there[0], 1024)
		}
		if got := x.mostTo(&port{key: netip.AddrPortFrom(here[0], UDPPort)}, there[0]); got != way.want {
			t.Errorf("MTU %d: %d, want %d", way.mtu, got, way.want)
		}
	}
	inNetwork(t, "ip link set pair0 mtu 5000")
	if got := x.mostTo(&port{key: netip.AddrPortFrom(here[0], UDPPort)}, netip.MustParseAddr("192.0.2.9")); got != 4096 {
		t.Errorf("no route: %d, want 4096", got)
	}
}

// TestMTUOfZone: a link-local address on two interfaces has the MTU of its zone's interface.
func TestMTUOfZone(t *testing.T) {
	twoHosts(t)
	inNetwork(t, "ip link add more0 type veth peer name more1", "ip link set more0 mtu 3000 up", "ip addr add fe80::77/64 dev pair0 nodad", "ip addr add fe80::77/64 dev more0 nodad",
		"ip addr add 169.254.1.1/16 dev pair0", "ip addr add 169.254.1.1/16 dev more0")
	for zone, want := range map[string]int{"pair0": 1500, "more0": 3000} {
		if got := linkMTU(netip.MustParseAddr("fe80::77%" + zone)); got != want {
			t.Errorf("%s: %d, want %d", zone, got, want)
		}
	}
	list, err := hostAddrs(netip.IPv4Unspecified())
	if err != nil {
		t.Fatalf("hostAddrs: %v", err)
	}
	n := 0
	for _, a := range list {
		if a == netip.MustParseAddr("169.254.1.1") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("an address of two interfaces is listed %d times, want once", n)
	}
}

// inNetwork runs commands in the test thread's network namespace.
func inNetwork(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		words := strings.Fields(line)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
}

// TestRefusedMTUIsRemembered: a client with a refused path MTU requests the one named in the
// refusal, at once and for the next connection.
func TestRefusedMTUIsRemembered(t *testing.T) {
	m := meet(t, Options{})
	at := netip.MustParseAddrPort(m.addr).Addr()
	server, client := OpenWith(rnic.DeviceConfig{}, Options{}), OpenWith(rnic.DeviceConfig{}, Options{})
	mtus := make(chan int, 16)
	go func() {
		for {
			req, err := m.l.Accept(t.Context())
			if err != nil {
				return
			}
			r := req.(*connRequest)
			mtus <- r.remote.PathMTU.Bytes()
			b := newSide(t, server, rnic.RC)
			providerOf(b.qp).paths.limit(r.k.Peer(), 1024)
			_ = req.Accept(b.qp, rnic.ConnParams{})
		}
	}()
	for range 2 {
		a := newSide(t, client, rnic.RC)
		if err := client.Connect(t.Context(), a.qp, m.addr, rnic.ConnParams{}); err != nil {
			t.Fatalf("Connect: %v", err)
		}
		if err := a.qp.Disconnect(t.Context()); err != nil {
			t.Errorf("Disconnect: %v", err)
		}
	}
	for _, want := range []int{4096, 1024, 1024} {
		if got := <-mtus; got != want {
			t.Errorf("request to %v has a path MTU of %d, want %d", at, got, want)
		}
	}
}

// providerOf returns a QP's provider.
func providerOf(qp *rnic.QP) *provider { return rnic.EndpointOf(qp).(*endpoint).p }

// TestRepeatedMTURequestAccepted: a peer that requests less after a refusal is refused again when
// it requests more. A peer that repeats its request is accepted until the limit expires.
func TestRepeatedMTURequestAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x paths
		yields, insists := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		want := func(peer netip.Addr, asked int, admitted bool) {
			t.Helper()
			if got := x.admits(peer, asked, 1024); got != admitted {
				t.Errorf("%v requests %d: admitted %v, want %v", peer, asked, got, admitted)
			}
		}
		want(yields, 1024, true)
		if got := x.known(yields); got != (path{}) {
			t.Errorf("limit of a peer with an acceptable request is %+v, want none", got)
		}
		for range 3 {
			want(yields, 2048, false)
			want(yields, 1024, true)
		}
		want(insists, 4096, false)
		for range 3 {
			want(insists, 4096, true)
		}
		time.Sleep(time.Duration(pathTime))
		want(insists, 4096, false)
	})
}

// TestForgedRequestsKeepNoLimit: forged requests do not extend a peer's limit, and requests with
// other sources do not evict it.
func TestForgedRequestsKeepNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x paths
		peer := netip.MustParseAddr("198.51.100.1")
		x.limit(peer, 1024)
		expires := x.known(peer).until
		time.Sleep(time.Duration(pathTime) / 2)
		for i := range 2 * maxPaths {
			x.admits(netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), 4096, 1024)
			x.admits(peer, []int{4096, 1024}[i%2], 1024)
		}
		if got := x.known(peer); got.most != 1024 || got.until != expires {
			t.Errorf("the limit is %d until %d, want 1024 until %d", got.most, got.until, expires)
		}
		if n := len(x.all); n != maxPaths {
			t.Errorf("%d peers, want %d", n, maxPaths)
		}
	})
}

// TestPathsAreBounded: peers beyond the bound replace others.
func TestPathsAreBounded(t *testing.T) {
	var x paths
	for i := range 2 * maxPaths {
		x.limit(netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), 1024)
	}
	if n := len(x.all); n != maxPaths {
		t.Errorf("%d peers, want %d", n, maxPaths)
	}
	last := 2*maxPaths - 1
	if got := x.known(netip.AddrFrom4([4]byte{192, 0, byte(last >> 8), byte(last & 255)})).most; got != 1024 {
		t.Errorf("the last peer has the limit %d, want 1024", got)
	}
}

// TestRefusedForTheSameMTU: a refusal that names a path MTU no smaller than requested is final.
func TestRefusedForTheSameMTU(t *testing.T) {
	m := meet(t, Options{})
	asked := make(chan int, 16)
	go func() {
		for {
			req, err := m.l.Accept(t.Context())
			if err != nil {
				return
			}
			r := req.(*connRequest)
			select {
			case asked <- r.remote.PathMTU.Bytes():
			default:
			}
			r.refuseMTU(r.remote.PathMTU.Bytes())
		}
	}()
	a := newSide(t, m.dev, rnic.RC)
	var r *cm.RejectError
	if err := m.dev.Connect(t.Context(), a.qp, m.addr, rnic.ConnParams{}); !errors.As(err, &r) || r.Reason != mad.RejMTU {
		t.Errorf("%v, want a refusal with reason %v", err, mad.RejMTU)
	}
	if n := len(asked); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// TestPortNumbers: a service's port is 1 to 65535.
func TestPortNumbers(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:1": true, "127.0.0.1:65535": true, "127.0.0.1:0": false, "127.0.0.1:65536": false, "127.0.0.1:-1": false, "127.0.0.1:": false} {
		if _, err := resolve(t.Context(), addr); (err == nil) != want {
			t.Errorf("%s: %v, want a port: %v", addr, err, want)
		}
	}
}
