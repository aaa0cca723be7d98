// What a Device knows of the ways to its peers: what is remembered, for how long, and who is let in all the same.

package roce

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestShorter: each limit is below what was lost, down to the shortest path MTU.
func TestShorter(t *testing.T) {
	for lost, want := range map[int]int{4096: 1024, 2048: 1024, 1500: 1024, 1025: 1024, 1024: 256, 257: 256} {
		if got := shorter(lost); got != want {
			t.Errorf("after %d bytes %d, want %d", lost, got, want)
		}
	}
}

// known is what is remembered of a peer.
func (x *paths) known(peer netip.Addr) path {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.all[peer]
}

// TestLimits: the shortest counts, for as long as it is remembered, and of one peer alone; loopback takes the longest packets.
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
		x.limit(peer, 1024) // and the former one counts for nothing
		want(peer, 1024)
	})
}

// TestShortestWayCounts: a limit that was learned is none where the interface takes less, and of a peer that there is no way to at the moment the interface
// decides.
func TestShortestWayCounts(t *testing.T) {
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
		t.Errorf("no way: %d, want 4096", got)
	}
}

// TestMTUOfZone: one link-local address on two interfaces has the MTU of the one that its zone names.
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
		t.Fatal(err)
	}
	n := 0
	for _, a := range list {
		if a == netip.MustParseAddr("169.254.1.1") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("an address of two interfaces is there %d times, want once", n)
	}
}

// inNetwork runs commands in the network of the test's thread.
func inNetwork(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		words := strings.Fields(line)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
}

// TestPeerIsAskedForNoMoreAgain: a client that was refused a path MTU asks for what it was told it can have, now and the next time.
func TestPeerIsAskedForNoMoreAgain(t *testing.T) {
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
			t.Fatal(err)
		}
		if err := a.qp.Disconnect(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, want := range []int{4096, 1024, 1024} {
		if got := <-mtus; got != want {
			t.Errorf("%v is asked for a path MTU of %d, want %d", at, got, want)
		}
	}
}

// providerOf is the provider of a QP.
func providerOf(qp *rnic.QP) *provider { return rnic.EndpointOf(qp).(*endpoint).p }

// TestInsists: a peer that is refused and asks for less is refused again when it asks for more; one that knows no less gets what it asks for, until it is
// forgotten.
func TestInsists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x paths
		yields, insists := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		want := func(peer netip.Addr, asked int, admitted bool) {
			t.Helper()
			if got := x.admits(peer, asked, 1024); got != admitted {
				t.Errorf("%v asks for %d: admitted %v, want %v", peer, asked, got, admitted)
			}
		}
		want(yields, 1024, true)
		if got := x.known(yields); got != (path{}) {
			t.Errorf("%+v is kept of a peer that asks for what it can have", got)
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

// TestPathsAreBounded: peers beyond the bound take the place of others.
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
