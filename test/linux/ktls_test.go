// TLS in Linux's kernel, which the machine of the tests may lack: package ktls's tests in a guest.

package linux

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestKernelTLS runs the tests of transport/internal/ktls in the guest, whose kernel must have had
// connections of them.
func TestKernelTLS(t *testing.T) {
	enter(t, secureSeries)
	g := client(t, secureSeries)
	path := filepath.Join(t.TempDir(), "ktls.test")
	build := exec.Command("go", "test", "-c", "-o", path, "github.com/nfsrdma/nfsrdma/transport/internal/ktls")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the tests: %v\n%s", err, out)
	}
	out := run(t, g, "modprobe tls && cd /tmp && "+intoGuest(t, g, path)+" -test.v; echo status $?; rm ktls.test; cat /proc/net/tls_stat")
	if !strings.Contains(out, "\nstatus 0\n") || !regexp.MustCompile(`TlsTxSw\s+[1-9]`).MatchString(out) {
		t.Errorf("in the guest:\n%s", out)
	}
	quiet(t, g)
}
