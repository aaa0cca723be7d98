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

// TestKernelTLS runs tests in the guest, whose kernel must have had connections of them: those of
// transport/internal/ktls, and those of transport with sessions of both ends in the kernel.
func TestKernelTLS(t *testing.T) {
	enter(t, secureSeries)
	g := client(t, secureSeries)
	run(t, g, "modprobe tls")
	for pkg, only := range map[string]string{"transport/internal/ktls": ".", "transport": "KernelSession"} {
		path := filepath.Join(t.TempDir(), "ktls.test")
		build := exec.Command("go", "test", "-c", "-o", path, "github.com/nfsrdma/nfsrdma/"+pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building the tests of %s: %v\n%s", pkg, err, out)
		}
		const stat = "; cat /proc/net/tls_stat"
		before := sessionsOf(run(t, g, "true"+stat))
		out := run(t, g, "cd /tmp && "+intoGuest(t, g, path)+" -test.v -test.run "+only+"; echo status $?; rm ktls.test"+stat)
		if !strings.Contains(out, "\nstatus 0\n") || sessionsOf(out) == before {
			t.Errorf("%s in the guest:\n%s", pkg, out)
		}
	}
	quiet(t, g)
}

// sessionsOf returns the number of sessions that the kernel has sent in, from tls_stat.
func sessionsOf(stat string) string {
	return regexp.MustCompile(`TlsTxSw\s+(\d+)`).FindString(stat)
}
