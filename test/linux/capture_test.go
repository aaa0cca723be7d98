// Captures of what goes over the wire, and the verdict on them.

package linux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/wire"
	"github.com/nfsrdma/nfsrdma/test/wire/tap"
)

// tapping puts a tap with a capture before a port; the function that it returns ends both
// and checks what went through.
func tapping(t *testing.T, port int) (*tap.Tap, func(wire.Want)) {
	t.Helper()
	dir := os.Getenv("NFSRDMA_CAPTURES") // kept there to be read
	if dir == "" {
		dir = t.TempDir()
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%d.pcap", strings.ReplaceAll(t.Name(), "/", "-"), port))
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	capture := tap.NewCapture(f)
	tp, err := tap.New(fmt.Sprintf("127.0.0.1:%d", port), capture)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tp.Close() })
	return tp, func(want wire.Want) {
		t.Helper()
		tp.Close()
		if err := errors.Join(capture.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		wire.Check(t, path, want)
	}
}

// watched puts a tap before a port for as long as the test runs. At its end all that
// went through is checked.
func watched(t *testing.T, port int, want *wire.Want) *tap.Tap {
	t.Helper()
	tp, check := tapping(t, port)
	t.Cleanup(func() {
		if tp.Conns() > 0 { // not only TCP was used
			check(*want)
		}
	})
	return tp
}
