// Handles of files with reused inode numbers, while generations are cached.

package osfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// TestHandlesOfNumbersUsedAgain: new files get the inode numbers of removed files (XFS reuses
// numbers at once). They are listed and looked up with the handles that the kernel gives now.
func TestHandlesOfNumbersUsedAgain(t *testing.T) {
	for place, base := range places(t) {
		t.Run(place, func(t *testing.T) { reuseNumbers(t, tempDir(t, base)) })
	}
	xfs := slices.IndexFunc(fsKinds, func(k fsKind) bool { return k.name == "xfs" })
	t.Run("xfs", func(t *testing.T) {
		onFS(t, &fsKinds[xfs], func(t *testing.T, _ *fsKind, dir string, _ func()) {
			if again := reuseNumbers(t, dir); again == 0 {
				t.Error("no number was used again")
			}
		})
	})
}

// reuseNumbers makes, removes and lists files, and returns how many got an inode number that
// another file had before.
func reuseNumbers(t *testing.T, dir string) (again int) {
	f := newFS(t, dir, Options{})
	if !f.byName {
		return 0 // no generations are cached
	}
	const files = 40
	refs := make(map[uint64]nfsserver.Ref)
	list := func() (kept int) {
		listPlus(t, f, f.Root(), 1000, func(de *nfsserver.Dirent) {
			checkHandle(t, f, dir, de, &kept)
			if old, ok := refs[de.Fileid]; ok && old != de.Ref {
				again++
			}
			refs[de.Fileid] = de.Ref
		})
		return kept
	}
	for range 3 {
		for i := range files {
			os.Remove(filepath.Join(dir, fmt.Sprint(i)))
		}
		f.cache.closeAll() // an open file would keep its number
		must.Succeed(t, unix.Syncfs(f.tree.root))
		for i := range files {
			must.Succeed(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
		}
		list() // lists the files while their numbers are new
		time.Sleep(f.gens.SettlesIn() + 20*time.Millisecond)
		list()
		if kept := list(); kept < files {
			t.Errorf("generations of %d files in %d are kept", kept, files)
		}
	}
	for i := range files {
		must.Succeed(t, os.Chmod(filepath.Join(dir, fmt.Sprint(i)), 0o640))
	}
	listPlus(t, f, f.Root(), 1000, func(de *nfsserver.Dirent) {
		if de.Attr.Type == nfsserver.TypeReg && de.Attr.Mode != 0o640 {
			t.Errorf("%s is listed with mode %o", de.Name, de.Attr.Mode)
		}
	})
	return again
}

// checkHandle compares the handle in an entry, and from Lookup, with the handle that the kernel
// gives now.
func checkHandle(t *testing.T, f *FS, dir string, de *nfsserver.Dirent, kept *int) {
	t.Helper()
	if string(de.Name) == ".." {
		return
	}
	fd, err := unix.Open(filepath.Join(dir, string(de.Name)), unix.O_PATH|unix.O_NOFOLLOW, 0)
	must.Succeed(t, err)
	defer unix.Close(fd)
	want, err := kernelRefOf(f.top, fd)
	must.Succeed(t, err)
	if de.Ref != want {
		t.Errorf("%s is listed with handle %x, and has %x", de.Name, de.Ref.Bytes(), want.Bytes())
	}
	for range 2 { // once with the file closed, and once with it open
		if ref, _, err := f.Lookup(me, f.Root(), string(de.Name)); err != nil || ref != want {
			t.Errorf("%s is looked up as %x, %v, and has %x", de.Name, ref.Bytes(), err, want.Bytes())
		}
	}
	if f.gens.Has(de.Fileid) && de.Attr.Type == nfsserver.TypeReg {
		*kept++
	}
}
