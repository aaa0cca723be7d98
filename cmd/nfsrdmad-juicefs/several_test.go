// Schedules for several clients, drawn and checked by package several, on mounts of two servers of
// one volume.

package main

import (
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/several"
)

// TestSeveral: mounts of two servers of one volume, and the commands, are as consistent as NFS
// promises. The test runs random schedules, and some cells of the matrix in package several.
func TestSeveral(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	w := several.NewWorld("several")
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("w.Close: %v", err)
		}
	})
	for _, m := range []struct {
		kind    several.Kind
		options string
		server  int
	}{
		{several.Kind{Name: "a mount of the first server", Unasked: true}, "lookupcache=pos", 0},
		{several.Kind{Name: "a mount of the second server", Unasked: true}, "lookupcache=pos", 1},
		{several.Kind{Name: "a mount of the second server with noac", Unasked: true, NoCache: true}, "noac", 1},
	} {
		c.mount(m.options, m.server)
		if err := w.Process(m.kind, c.mounts[len(c.mounts)-1]); err != nil {
			t.Fatalf("Process: %v", err)
		}
	}
	bin, err := builtClient()
	if err != nil {
		t.Fatalf("builtClient: %v", err)
	}
	w.Add(several.Kind{Name: "the commands at the first server", Command: true},
		&several.Commands{Program: filepath.Join(bin, "nfsrdma"), URL: "nfs://" + c.servers[0].addr() + "/vol", File: filepath.Join(t.TempDir(), "file")})
	failed := func(failure error) bool {
		t.Error(failure)
		return false
	}
	taken, err := w.Check(1, 1500, failed)
	if err != nil {
		t.Fatalf("Check: %v", err)
	}
	cells, err := w.CheckMatrix([][2]int{{1, 0}, {0, 1}, {0, 2}, {2, 0}}, 1, 20, func(failure error) { failed(failure) })
	if err != nil {
		t.Fatalf("CheckMatrix: %v", err)
	}
	t.Logf("%d steps and %d cells", taken, cells)
}
