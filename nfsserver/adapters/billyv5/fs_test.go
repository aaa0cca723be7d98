// File systems of go-billy 5 against the contract of nfsserver.FS.

package billyv5_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/osfs"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/billyv5"
	"github.com/nfsrdma/nfsrdma/nfsserver/fstest"
	"github.com/nfsrdma/nfsrdma/test/must"
)

func newTree(t *testing.T, fsys billy.Filesystem, o adapters.Options) nfsserver.FS {
	t.Helper()
	tree, err := billyv5.New(fsys, o)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestContract(t *testing.T) {
	for name, mk := range map[string]func(t *testing.T) billy.Filesystem{
		"memfs": func(*testing.T) billy.Filesystem { return memfs.New() },
		"osfs":  func(t *testing.T) billy.Filesystem { return osfs.New(t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			habits := []fstest.Habit{fstest.Allocates, fstest.ChargesHoles, fstest.NoHardLinks, fstest.NoSpecialFiles}
			if name == "memfs" {
				habits = append(habits, fstest.SmallFiles)
			}
			fstest.Run(t, func(t *testing.T) nfsserver.FS { return newTree(t, mk(t), adapters.Options{}) }, habits...)
		})
	}
}

// TestBoundOSLinks: a BoundOS would remove the object that a link leads to.
func TestBoundOSLinks(t *testing.T) {
	dir, me := t.TempDir(), nfsserver.Self()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "file"), []byte("kept"), 0o600))
	must.Succeed(t, os.Symlink("file", filepath.Join(dir, "link")))
	tree := newTree(t, osfs.New(dir, osfs.WithBoundOS()), adapters.Options{})
	if err := tree.Remove(me, tree.Root(), "link"); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("Remove: got %v, want %v", err, syscall.EOPNOTSUPP)
	}
	if err := tree.Rename(me, tree.Root(), "link", tree.Root(), "other"); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("Rename: got %v, want %v", err, syscall.EOPNOTSUPP)
	}
	if _, err := os.Stat(filepath.Join(dir, "file")); err != nil {
		t.Errorf("the file: got %v, want no error", err)
	}
	must.Succeed(t, tree.Close())
}
