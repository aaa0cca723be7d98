// The table of mounts, when one directory is mounted more than once.

package osfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// TestSameMountTwice: two mounts show one directory, and the first is closed. Its handles then find
// files through the second mount, which takes the first one's place in the table.
func TestSameMountTwice(t *testing.T) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root")
	dir := t.TempDir()
	mountOn(t, filepath.Join(dir, "a"), "-t", "tmpfs", "tmpfs")
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "a", "file"), nil, 0o644))
	mountOn(t, filepath.Join(dir, "b"), "--bind", filepath.Join(dir, "a"))
	f := newFS(t, dir, Options{CrossMounts: true})
	f.sweep.stop()
	f.sweep.init()
	a, _, err := f.Lookup(me, f.Root(), "a")
	must.Succeed(t, err)
	b, _, err := f.Lookup(me, f.Root(), "b")
	must.Succeed(t, err)
	if a != b {
		t.Fatal("two mounts of one directory have two handles")
	}
	id := f.mounts.only(t, 2)
	f.cache.closeAll()
	f.mounts.mu.Lock()
	f.mounts.byID[id].used -= idleTicks // as if the first mount had been idle
	f.mounts.mu.Unlock()
	for _, m := range f.mounts.idle(f.cache.tick.Load()) {
		unix.Close(m.fd)
	}
	_, err = f.Getattr(b)
	must.Succeed(t, err)
	if f.mounts.byID[id] == nil {
		t.Error("the mount that stayed is looked for anew with each handle")
	}
}

// only returns the ID that all mounts in the table share. It fails the test unless there are count
// mounts with one ID.
func (m *mountTable) only(t *testing.T, count int) (id uint64) {
	t.Helper()
	if len(m.byNumber) != count || len(m.byID) != 1 {
		t.Fatalf("%d mounts with %d ids", len(m.byNumber), len(m.byID))
	}
	for id = range m.byID {
	}
	return id
}
