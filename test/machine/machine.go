// What a test cannot have here: told in one line, and in CI a failure.

// Package machine is what tests of all packages share of the machine that they run on: ports and
// addresses that no other test has at the same time, in whatever process, and the line that says
// what is missing.
package machine

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Skip leaves a test out because of what is missing, with a line for the end of ./test/run. With
// CI=true, where nothing is to be missing, it fails.
func Skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("must not be skipped here: %s", why)
	}
	Note(t, why)
	t.Skip(why)
}

// Note leaves a line for the end of ./test/run and lets the test go on without what is missing.
func Note(t testing.TB, why string) {
	t.Helper()
	log := os.Getenv("NFSRDMA_SKIP_LOG")
	if log == "" {
		return
	}
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Logf("%s: %v", why, err)
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "%s: %s\n", t.Name(), strings.ReplaceAll(why, "\n", " "))
}
