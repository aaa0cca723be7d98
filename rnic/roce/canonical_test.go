// The one form of an address.

package roce

import (
	"net"
	"net/netip"
	"testing"
)

// TestCanonical: a zone is an interface's name, and counts for link-local addresses of IPv6 alone.
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

// TestHostAddrs: link-local addresses are among those of a host, with their zones, and none is there twice.
func TestHostAddrs(t *testing.T) {
	here, _, _ := twoHosts(t)
	for all, six := range map[string]bool{"0.0.0.0": false, "::": true} {
		list, err := hostAddrs(netip.MustParseAddr(all))
		if err != nil {
			t.Fatal(err)
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
				t.Errorf("%s: %v is there %d times", all, a, times)
			}
		}
		if n[here[0]] != 1 || (n[here[1]] == 1) != six || (links == 1) != six {
			t.Errorf("%s: %v", all, list)
		}
	}
}
