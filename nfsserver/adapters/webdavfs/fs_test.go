// WebDAV file systems against the contract of nfsserver.FS.

package webdavfs_test

import (
	"testing"

	"golang.org/x/net/webdav"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/webdavfs"
	"github.com/nfsrdma/nfsrdma/nfsserver/fstest"
)

func newTree(t *testing.T, fsys webdav.FileSystem, o adapters.Options) nfsserver.FS {
	t.Helper()
	tree, err := webdavfs.New(fsys, o)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestContract(t *testing.T) {
	for name, mk := range map[string]func(t *testing.T) webdav.FileSystem{
		"memory": func(*testing.T) webdav.FileSystem { return webdav.NewMemFS() },
		"disk":   func(t *testing.T) webdav.FileSystem { return webdav.Dir(t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			habits := []fstest.Habit{fstest.Allocates, fstest.ChargesHoles, fstest.NoHardLinks, fstest.NoSpecialFiles, fstest.NoSymlinks}
			if name == "memory" {
				habits = append(habits, fstest.SmallFiles)
			}
			fstest.Run(t, func(t *testing.T) nfsserver.FS { return newTree(t, mk(t), adapters.Options{}) }, habits...)
		})
	}
}
