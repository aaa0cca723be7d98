// File systems of afero against the contract of nfsserver.FS.

package aferofs_test

import (
	"errors"
	"testing"

	"github.com/spf13/afero"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/aferofs"
	"github.com/nfsrdma/nfsrdma/nfsserver/fstest"
	"github.com/nfsrdma/nfsrdma/test/must"
)

func newTree(t *testing.T, fsys afero.Fs, o adapters.Options) nfsserver.FS {
	t.Helper()
	tree, err := aferofs.New(fsys, o)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestContract(t *testing.T) {
	common := []fstest.Habit{fstest.Allocates, fstest.ChargesHoles, fstest.NoHardLinks, fstest.NoSpecialFiles, fstest.NoSymlinks}
	t.Run("memory", func(t *testing.T) {
		fstest.Run(t, func(t *testing.T) nfsserver.FS { return newTree(t, afero.NewMemMapFs(), adapters.Options{}) },
			append(common, fstest.SmallFiles)...)
	})
	t.Run("disk", func(t *testing.T) {
		fstest.Run(t, func(t *testing.T) nfsserver.FS {
			return newTree(t, afero.NewBasePathFs(afero.NewOsFs(), t.TempDir()), adapters.Options{})
		}, common...)
	})
}

// TestStateDirectory: handles and kept attributes survive a restart.
func TestStateDirectory(t *testing.T) {
	fsys, me, o := afero.NewMemMapFs(), nfsserver.Self(), adapters.Options{StateDir: t.TempDir()}
	tree := newTree(t, fsys, o)
	mode := &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o700}
	dir, _, err := tree.Mkdir(me, tree.Root(), "dir", mode)
	must.Succeed(t, err)
	file, _, err := tree.Create(me, dir, "file", mode)
	must.Succeed(t, err)
	atime := nfsserver.Time{Sec: 1e9, Nsec: 5} // afero does not keep access times
	must.Succeed(t, tree.Setattr(me, file, &nfsserver.SetAttr{Mask: nfsserver.SetAtime, Atime: atime}),
		tree.Rename(me, tree.Root(), "dir", tree.Root(), "renamed"), tree.Sync(file, false), tree.Close())

	tree = newTree(t, fsys, o)
	a, err := tree.Getattr(file)
	must.Succeed(t, err)
	if a.Atime != atime {
		t.Errorf("time of access: got %v, want %v", a.Atime, atime)
	}
	found, _, err := tree.Lookup(me, dir, "file")
	must.Succeed(t, err)
	if found != file {
		t.Errorf("found: got %v, want %v", found, file)
	}
	must.Succeed(t, tree.Close())
}

// TestChangesByOthers: if another program removes or replaces an object, the object's handle is
// stale, and its successor has another handle.
func TestChangesByOthers(t *testing.T) {
	fsys, me := afero.NewMemMapFs(), nfsserver.Self()
	tree := newTree(t, fsys, adapters.Options{})
	must.Succeed(t, afero.WriteFile(fsys, "/x", []byte("file"), 0o600))
	look := func() nfsserver.Ref {
		r, _, err := tree.Lookup(me, tree.Root(), "x")
		must.Succeed(t, err)
		return r
	}
	stale := func(what string, r nfsserver.Ref) {
		if _, err := tree.Getattr(r); !errors.Is(err, nfsserver.ErrStale) {
			t.Errorf("%s: got %v, want %v", what, err, nfsserver.ErrStale)
		}
	}
	first := look()
	must.Succeed(t, fsys.Remove("/x"))
	stale("a removed file", first)
	must.Succeed(t, afero.WriteFile(fsys, "/x", []byte("second"), 0o600))
	second := look()
	stale("a removed file, after another was made", first)
	must.Succeed(t, fsys.Remove("/x"), fsys.Mkdir("/x", 0o700))
	stale("a file replaced by a directory", second)
	if third := look(); third == second || third == first {
		t.Error("a directory has the handle of a file")
	}
	must.Succeed(t, tree.Close())
}
