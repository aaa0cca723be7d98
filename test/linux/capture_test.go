// Captures of the traffic, and the checks on them.

package linux

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/wire"
	"github.com/nfsrdma/nfsrdma/test/wire/tap"
)

// tapping puts a tap with a capture between listen and upstream. The returned function ends both
// and checks the traffic.
func tapping(t *testing.T, listen, upstream string) (*tap.Tap, func(wire.Want)) {
	t.Helper()
	dir := os.Getenv("NFSRDMA_CAPTURES") // kept there to be read
	if dir == "" {
		dir = t.TempDir()
	}
	path := filepath.Join(dir, strings.NewReplacer("/", "-", ":", "-").Replace(t.Name()+"-"+upstream)+".pcap")
	f, err := os.Create(path)
	if err != nil {
		t.Fatalf("os.Create: %v", err)
	}
	capture := tap.NewCapture(f)
	tp, err := tap.New(listen, upstream, capture)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { tp.Close() })
	return tp, func(want wire.Want) {
		t.Helper()
		tp.Close()
		must.Succeed(t, capture.Close(), f.Close())
		wire.Check(t, path, want)
	}
}

// watched puts a tap between listen and upstream until the test ends, and returns its port. At the
// test's end all traffic is checked.
func watched(t *testing.T, listen, upstream string, want *wire.Want) int {
	t.Helper()
	tp, check := tapping(t, listen, upstream)
	t.Cleanup(func() {
		if tp.Conns() > 0 { // not only TCP was used
			check(*want)
		}
	})
	return tp.Port()
}

// relay forwards connections from listen to upstream until the test ends, and returns its port.
func relay(t *testing.T, listen, upstream string) int {
	t.Helper()
	tp, err := tap.New(listen, upstream, nil)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { tp.Close() })
	return tp.Port()
}
