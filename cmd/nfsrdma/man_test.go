// The manual pages: groff's errors, and completeness compared with the help texts.

package main

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mantest"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/spf13/cobra"
)

func TestManPages(t *testing.T) {
	if !mantest.HaveGroff() {
		machine.Skip(t, "needs groff")
	}
	dir := t.TempDir()
	nfs(t, "man", dir)
	if pages := mantest.Commands(t, dir, newRoot(&session.Session{}), "1"); pages < 25 {
		t.Errorf("%d pages", pages)
	}
	mantest.Page(t, newHelper(&session.Session{}), mantest.Name(dir, "mount.nfsrdma", "8"))
	mantest.Says(t, mantest.Name(dir, "mount.nfsrdma", "8"), "EXIT STATUS", "32 mounting failed", "FILES /etc/fstab")
	mantest.Says(t, mantest.Name(dir, "nfsrdma-umount", "1"), "DESCRIPTION", "EXIT STATUS", "64 unmounted, while", "FILES /run/nfsrdma", "ENVIRONMENT GOMAXPROCS", "DIAGNOSTICS", "OPTIONS", "SEE ALSO")
}

// TestHelpTexts: each line of help fits in a terminal, and its sentences are short.
func TestHelpTexts(t *testing.T) {
	mantest.Help(t, newRoot(&session.Session{}))
	helper := newHelper(&session.Session{})
	cli.Prepare(&cobra.Command{Use: "x"}, helper)
	mantest.Help(t, helper)
}
