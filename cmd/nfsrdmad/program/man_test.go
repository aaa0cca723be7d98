// The manual pages: groff's errors, completeness compared with the help texts, and the pages that
// the units name.

package program

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/mantest"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

func TestManPages(t *testing.T) {
	if !mantest.HaveGroff() {
		machine.Skip(t, "needs groff")
	}
	dir := t.TempDir()
	if _, err := run(context.Background(), "man", dir); err != nil {
		t.Fatalf("run: %v", err)
	}
	if pages := mantest.Commands(t, dir, newRoot(), "8"); pages < 10 {
		t.Errorf("%d pages", pages)
	}
	mantest.Page(t, grammarPage(), mantest.Name(dir, "nfsrdma-exports", "5"))
	mantest.Says(t, mantest.Name(dir, "nfsrdma-exports", "5"), "FILES /etc/nfsrdma/exports")
	mantest.Says(t, mantest.Name(dir, "nfsrdmad-serve", "8"), "EXIT STATUS", "FILES", "/var/lib/nfsrdma", "ENVIRONMENT", "NOTIFY_SOCKET, WATCHDOG_USEC")
	mantest.Says(t, mantest.Name(dir, "nfsrdmad", "8"), "nfsrdma-exports(5).")
	units, err := filepath.Glob("../../../deploy/nfsrdmad.*")
	if err != nil || len(units) == 0 {
		t.Fatal(units, err)
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		refs := regexp.MustCompile(`man:([a-z.-]+)\((\d)\)`).FindAllSubmatch(text, -1)
		if len(refs) == 0 {
			t.Errorf("%s names no manual page", unit)
		}
		for _, m := range refs {
			if _, err := os.Stat(mantest.Name(dir, string(m[1]), string(m[2]))); err != nil {
				t.Errorf("%s: %s: %v", unit, m[0], err)
			}
		}
	}
}

// TestHelpTexts: each line of help fits in a terminal, and its sentences are short.
func TestHelpTexts(t *testing.T) {
	mantest.Help(t, newRoot())
}
