// The manual pages: what groff finds wrong with them, and whether they say all that the help texts say.

package main

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/mantest"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/test/machine"
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
}
