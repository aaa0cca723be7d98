// An FS on a volume in a directory passes the tests of every FS.

package juicefs

import (
	"os"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/fstest"
)

// me is the calling user.
var me = nfsserver.Self()

// newDir makes a directory in memory, if possible, because a sync of a disk waits for the writes of
// all programs.
func newDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "juicefs-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// openNew makes a volume in a new directory, and opens a directory in the volume. On a slow
// machine, JuiceFS itself has races on a volume's root.
func openNew(t *testing.T, l Local) *FS {
	t.Helper()
	l.Dir, l.UID, l.GID = newDir(t), me.UID, me.GID
	f := reopen(t, l)
	top, _, err := f.Mkdir(me, f.Root(), "top", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
	if err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	f.root, _, _ = f.parse(&top)
	return f
}

// reopen opens the volume l, after making it if it is missing.
func reopen(t *testing.T, l Local) *FS {
	t.Helper()
	url, err := l.Make()
	if err != nil {
		t.Fatalf("Make: %v", err)
	}
	f, err := Open(Options{Meta: url})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return f
}

func TestFS(t *testing.T) {
	fstest.Run(t, func(t *testing.T) nfsserver.FS { return openNew(t, Local{ACL: true}) }, fstest.Allocates, fstest.ChargesHoles)
}

// TestFSWithTrash: a removed object is gone for NFS, although the volume still has it.
func TestFSWithTrash(t *testing.T) {
	fstest.Run(t, func(t *testing.T) nfsserver.FS { return openNew(t, Local{TrashDays: 1}) }, fstest.Allocates, fstest.ChargesHoles)
}
