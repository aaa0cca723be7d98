//go:build linux

// The kernel's path MTU to a peer.

package udp

import (
	"net/netip"
	"testing"
)

// TestPathMTU: loopback takes the longest packets of both families. There is no route from
// another host's address.
func TestPathMTU(t *testing.T) {
	for _, c := range []struct {
		local, peer string
		want        int
	}{{"127.0.0.1", "127.0.0.2", 65535}, {"::1", "::1", 65536}, {"192.0.2.1", "127.0.0.1", 0}, {"127.0.0.1", "::1", 0}} {
		if got := PathMTU(netip.MustParseAddr(c.local), netip.MustParseAddr(c.peer)); got != c.want {
			t.Errorf("from %s to %s: %d, want %d", c.local, c.peer, got, c.want)
		}
	}
}
