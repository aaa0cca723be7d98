// What the guest's kernel says about RPC and RDMA while a test runs.

package linux

import (
	"regexp"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
)

// concerns picks the lines of the kernel's log that are about us.
var concerns = regexp.MustCompile(`(?i)rpc|rdma|siw|nfs|\bBUG:|WARNING:|Oops|blocked for more than`)

// quiet fails when the kernel has said something about us since the last call that
// expected does not match.
func quiet(t *testing.T, g *guest.Guest, expected ...string) {
	t.Helper()
	for line := range strings.Lines(run(t, g, "dmesg -c")) {
		line = strings.TrimSpace(line)
		if !concerns.MatchString(line) {
			continue
		}
		ok := false
		for _, e := range expected {
			ok = ok || regexp.MustCompile(e).MatchString(line)
		}
		if ok {
			t.Logf("the guest's kernel says, as expected: %s", line)
		} else {
			t.Errorf("the guest's kernel says: %s", line)
		}
	}
}
