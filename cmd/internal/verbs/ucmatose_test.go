// ucmatose between two of our ends.

package verbs

import (
	"context"
	"strings"
	"testing"
)

func TestUcmatose(t *testing.T) {
	for _, size := range []int{0, 1, 20_000} {
		s, c, err, err2 := both(t, Options{Size: size, Iterations: 7}, Ucmatose, nil, nil)
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

// TestUcmatoseChecked: invalid options are refused. A server reports a client that sends other
// messages, or that closes the connection early.
func TestUcmatoseChecked(t *testing.T) {
	if _, err := Ucmatose(t.Context(), Options{Port: 1, Iterations: 5000}); err == nil || !strings.Contains(err.Error(), "--count 5000: 1 to 4096") {
		t.Errorf("Ucmatose: %v, want %q", err, "--count 5000: 1 to 4096")
	}
	if _, err := Ucmatose(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "--port 0") {
		t.Errorf("Ucmatose: %v, want %q", err, "--port 0")
	}
	_, _, err, err2 := both(t, Options{Size: 50}, Ucmatose, func(o *Options) { o.Size = 60 }, nil)
	if err2 == nil || !strings.Contains(err2.Error(), "the peer sends messages of 60 bytes") {
		t.Error(err, err2)
	}
	leaves := func(ctx context.Context, o Options) (*PingpongReport, error) {
		if o.server() {
			return Ucmatose(ctx, o)
		}
		return rpingPeer(func(*rping) error { return nil })(ctx, o)
	}
	_, _, err, _ = both(t, Options{Iterations: 20}, leaves, nil, nil)
	// The client leaves while the server sends, or its receives are too short for the messages that
	// arrive before.
	if err == nil || !strings.Contains(err.Error(), "EOF") && !strings.Contains(err.Error(), "connection lost") && !strings.Contains(err.Error(), "the peer refused it") {
		t.Errorf("a client that leaves: %v", err)
	}
}
