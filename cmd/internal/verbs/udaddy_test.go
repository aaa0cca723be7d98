// udaddy and mckey between two of our ends.

package verbs

import (
	"context"
	"net/netip"
	"strings"
	"testing"
)

func TestUdaddy(t *testing.T) {
	for _, size := range []int{0, 1, 1000} {
		s, c, err, err2 := both(t, Options{Size: size, Iterations: 7}, Udaddy, nil, nil)
		if err != nil || err2 != nil {
			t.Fatalf("%d bytes: server: %v; client: %v", size, err, err2)
		}
		if s.Iterations != 7 || c.Iterations != 7 || s.Role != "server" {
			t.Errorf("%s: %d and %d iterations, want server: 7 and 7", s.Role, s.Iterations, c.Iterations)
		}
		if c.Size != s.Size || size == 0 && c.Size != 100 {
			t.Errorf("sizes %d and %d, want one, and 100 by default", s.Size, c.Size)
		}
		if s.Remote != c.Local || c.Remote != s.Local {
			t.Errorf("server %s with %s, client %s with %s", s.Local, s.Remote, c.Local, c.Remote)
		}
	}
}

// mckey runs Mckey with a group that only this test uses; the end with a Host is the sender.
func mckey(ctx context.Context, o Options) (*PingpongReport, error) {
	receiver := o.Local
	if !o.server() {
		receiver = netip.MustParseAddr(o.Host)
	}
	a := receiver.As4()
	return Mckey(ctx, o, netip.AddrFrom4([4]byte{239, a[1], a[2], a[3]}), !o.server())
}

func TestMckey(t *testing.T) {
	s, c, err, err2 := both(t, Options{Size: 500, Iterations: 20}, mckey, nil, nil)
	if err != nil || err2 != nil {
		t.Fatalf("receiver: %v; sender: %v", err, err2)
	}
	if s.Role != "receiver" || s.Bytes != 10_000 {
		t.Errorf("%s: %d bytes, want receiver: 10000", s.Role, s.Bytes)
	}
	if c.Role != "sender" || c.Bytes != 10_000 {
		t.Errorf("%s: %d bytes, want sender: 10000", c.Role, c.Bytes)
	}
	if !strings.HasPrefix(s.Remote, "239.") || s.Remote != c.Remote {
		t.Errorf("groups %s and %s, want one in 239.0.0.0/8", s.Remote, c.Remote)
	}
}

// TestDatagramsChecked: invalid options are reported before anything is sent; ends with different
// options report that.
func TestDatagramsChecked(t *testing.T) {
	if _, err := Mckey(t.Context(), Options{Port: 1}, netip.MustParseAddr("10.1.2.3"), true); err == nil || !strings.Contains(err.Error(), "10.1.2.3: not a multicast address") {
		t.Errorf("Mckey: %v, want %q", err, "10.1.2.3: not a multicast address")
	}
	if _, err := Udaddy(t.Context(), Options{Port: 1, Iterations: 5000}); err == nil || !strings.Contains(err.Error(), "--count 5000: 1 to 4096") {
		t.Errorf("Udaddy: %v, want %q", err, "--count 5000: 1 to 4096")
	}
	_, _, err, err2 := both(t, Options{Size: 100_000}, Udaddy, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "--size 100000: a datagram holds") {
		t.Error(err, err2)
	}
	_, _, err, _ = both(t, Options{Size: 50}, Udaddy, func(o *Options) { o.Size = 60 }, nil)
	if err == nil || !strings.Contains(err.Error(), "the peer sends messages of 50 bytes") {
		t.Errorf("both: %v, want %q", err, "the peer sends messages of 50 bytes")
	}
}
