// The help and the manual pages of nfsrdmad-juicefs, and the files that they name.

package volumes

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/mantest"
	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/program"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

func TestManPages(t *testing.T) {
	if !mantest.HaveGroff() {
		machine.Skip(t, "needs groff")
	}
	kind, dir := Kind(&Serve{}, nil, nil), t.TempDir()
	root := program.NewRoot(kind) // also sets kind's texts for the pages
	root.SetArgs([]string{"man", dir})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("ExecuteContext: %v", err)
	}
	if pages := mantest.Commands(t, dir, program.NewRoot(Kind(&Serve{}, nil, nil)), "8"); pages < 10 {
		t.Errorf("%d pages, want at least 10", pages)
	}
	page := func(command string) string { return mantest.Name(dir, "nfsrdmad-juicefs"+command, "8") }
	mantest.Says(t, page(""), "ENVIRONMENT", "FILES", "/run/"+kind.Dir+"/control", "SEE ALSO", "nfsrdma(1), nfsrdmad(8)")
	mantest.Says(t, page("-serve"), "EXIT STATUS", "ENVIRONMENT", "NOTIFY_SOCKET, WATCHDOG_USEC", "META_PASSWORD", "FILES", "/var/lib/"+kind.Dir,
		"/etc/default/nfsrdmad-juicefs", "DIAGNOSTICS", "is in use", "SEE ALSO", "nfsrdma-exports(5), nfsrdmad(8)")
	mantest.Says(t, page("-check"), "EXIT STATUS", "FILES", kind.Exports)
	mantest.Says(t, page("-format"), "EXIT STATUS", "ENVIRONMENT", "ACCESS_KEY, SECRET_KEY, SESSION_TOKEN", "EXAMPLES")
}

// TestHelpTexts: each line of help fits in a terminal, and its sentences are short.
func TestHelpTexts(t *testing.T) {
	mantest.Help(t, program.NewRoot(Kind(&Serve{}, nil, nil)))
}
