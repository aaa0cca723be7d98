//go:build linux

// Interface lookup by address.

package udp

import (
	"net/netip"
	"os/exec"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// TestInterfaceOfAZone: the zone selects one of two interfaces with the same address.
func TestInterfaceOfAZone(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	const script = `ip link add one type veth peer name two
		for name in one two; do ip address add fe80::1/64 dev $name nodad; done`
	if out, err := exec.Command("sh", "-e", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for addr, want := range map[string]string{"fe80::1%one": "one", "fe80::1%two": "two", "fe80::1%lo": "", "fe80::2%one": "", "::1": "lo", "127.1.2.3": "lo"} {
		got := ""
		if i := interfaceOf(netip.MustParseAddr(addr)); i != nil {
			got = i.Name
		}
		if got != want {
			t.Errorf("%s: interface %q, want %q", addr, got, want)
		}
	}
}
