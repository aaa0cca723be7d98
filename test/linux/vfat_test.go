// File systems that the host's kernel does not always have, served in a guest.

package linux

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// vfatTests are the tests in nfsserver/osfs that run on every file system.
var vfatTests = []string{"TestHandlesNameTheirFile", "TestGranularityOfTimes", "TestListingsDoNotDisturb"}

// TestVFAT: handles, times and listings are right on a vfat; few kernels on test hosts have the
// module.
func TestVFAT(t *testing.T) {
	enter(t, "6.1")
	binary := filepath.Join(t.TempDir(), "osfs.test")
	build := exec.Command("go", "test", "-c", "-o", binary, "github.com/nfsrdma/nfsrdma/nfsserver/osfs")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the tests: %v\n%s", err, out)
	}
	g := client(t, "6.1")
	test := intoGuest(t, g, binary)
	out := run(t, g, "modprobe loop && modprobe vfat && cd /tmp && "+test+" -test.v -test.run '^("+strings.Join(vfatTests, "|")+")$/^vfat$'")
	for _, name := range vfatTests {
		if !strings.Contains(out, "--- PASS: "+name+"/vfat") {
			t.Errorf("%s did not run:\n%s", name, out)
		}
	}
	quiet(t, g)
}
