// Skipping: one line for the end of ./test/run, and never where everything has to run.

package control

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// skip leaves a line for the end of ./test/run. With CI=true it fails.
func skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("must not be skipped here: %s", why)
	}
	if log := os.Getenv("NFSRDMA_SKIP_LOG"); log != "" {
		if f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0); err == nil {
			fmt.Fprintf(f, "%s: %s\n", t.Name(), strings.ReplaceAll(why, "\n", " "))
			f.Close()
		}
	}
	t.Skip(why)
}
