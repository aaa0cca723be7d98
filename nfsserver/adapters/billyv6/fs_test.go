// File systems of go-billy 6 against the contract of nfsserver.FS.

package billyv6_test

import (
	"testing"

	"github.com/go-git/go-billy/v6"
	"github.com/go-git/go-billy/v6/memfs"
	"github.com/go-git/go-billy/v6/osfs"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/billyv6"
	"github.com/nfsrdma/nfsrdma/nfsserver/fstest"
)

func newTree(t *testing.T, fsys billy.Filesystem, o adapters.Options) nfsserver.FS {
	t.Helper()
	tree, err := billyv6.New(fsys, o)
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
