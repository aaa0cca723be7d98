// Tap devices without a guest.

package guest

import (
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

func needTaps(t *testing.T) {
	t.Helper()
	if err := Direct(); err != nil {
		t.Skip(err) // the Linux suite says so, and uses the user network
	}
}

// TestTaps: each device has its own subnet, is up with its address and its MTU, and disappears when
// it is closed.
func TestTaps(t *testing.T) {
	needTaps(t)
	if !machine.Apart(t) { // another test could take a device that is gone for a moment
		return
	}
	seen := map[string]bool{}
	var taps []*tap
	for _, cfg := range []Config{{}, {Isolated: true}, {MTU: 1500}} {
		tp, err := openTap(cfg)
		if err != nil {
			t.Fatalf("openTap: %v", err)
		}
		defer tp.close()
		taps = append(taps, tp)
		subnet := tp.host.String()
		if seen[subnet] || !subnets.Contains(tp.host) {
			t.Errorf("%s has the address %s, among %v", tp.name, tp.host, seen)
		}
		seen[subnet] = true
		i, err := net.InterfaceByName(tp.name)
		if err != nil {
			t.Fatalf("net.InterfaceByName: %v", err)
		}
		want := cfg.MTU
		if want == 0 {
			want = DefaultMTU
		}
		if i.MTU != want || i.Flags&net.FlagUp == 0 {
			t.Errorf("%s: MTU %d, %v", tp.name, i.MTU, i.Flags)
		}
		addrs, err := i.Addrs()
		if err != nil || len(addrs) != 1 || addrs[0].String() != subnet+"/30" {
			t.Errorf("%s: %v, %v", tp.name, addrs, err)
		}
	}
	for _, tp := range taps {
		tp.close()
		if _, err := net.InterfaceByName(tp.name); err == nil {
			t.Errorf("%s is still there", tp.name)
		}
	}
	again, err := openTap(Config{Device: taps[2].name})
	if err != nil {
		t.Fatalf("openTap: %v", err)
	}
	defer again.close()
	if again.host != taps[2].host || again.name != taps[2].name {
		t.Errorf("%s again has the address %s, and had %s", again.name, again.host, taps[2].host)
	}
}

// TestTapPassesOverWhatIsTaken: openTap skips a subnet in which this machine has an address.
func TestTapPassesOverWhatIsTaken(t *testing.T) {
	needTaps(t)
	if !machine.Apart(t) {
		return
	}
	other, err := newTap(tapName)
	if err != nil {
		t.Fatalf("newTap: %v", err)
	}
	defer other.close()
	wanted, err := openTap(Config{}) // the device of the next number
	if err != nil {
		t.Fatalf("openTap: %v", err)
	}
	other.host, other.mtu = wanted.host, 1500
	wanted.close()
	if err := other.setUp(false); err != nil {
		t.Fatalf("setUp: %v", err)
	}
	got, err := openTap(Config{})
	if err != nil {
		t.Fatalf("openTap: %v", err)
	}
	defer got.close()
	if got.host == wanted.host {
		t.Errorf("%s and %s both have %s", other.name, got.name, got.host)
	}
}
