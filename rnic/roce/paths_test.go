// What a Device knows of the ways to its peers: what is remembered, for how long, and who is let in all the same.

package roce

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
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
		time.Sleep(1)
		want(peer, 4096)
		x.limit(peer, 1024) // and the former one counts for nothing
		want(peer, 1024)
	})
}

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
