// Skipped tests: one line about the missing requirement, and a failure in CI.

// Package machine has the test helpers for the machine: ports and addresses that no concurrent test
// in any process uses, and the line about a missing requirement.
package machine

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Skip skips a test with a line about the missing requirement, for the end of ./test/run. With
// CI=true, where all requirements must be met, Skip fails the test.
func Skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("must not be skipped here: %s", why)
	}
	Note(t, why)
	t.Skip(why)
}

// Note records a line about a missing requirement, and continues the test without that part.
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
