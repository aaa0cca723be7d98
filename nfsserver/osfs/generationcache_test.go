// Generations that are kept: right for each file that has had a number, and given back.

package osfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// statOf is attributes of an inode number that has a ctime.
func statOf(ino uint64, ctime time.Time) *unix.Stat_t {
	return &unix.Stat_t{Ino: ino, Ctim: unix.NsecToTimespec(ctime.UnixNano())}
}

// TestGenerationIsOfNumberAndCtime: nothing is found for another file in the place, whether it
// has the number, the slot, or the ctime of the one that is kept.
func TestGenerationIsOfNumberAndCtime(t *testing.T) {
	var g generations
	g.init(time.Nanosecond)
	defer g.drop(0, 0)
	asked := time.Now()
	old := asked.Add(-time.Second)
	if !g.settled(statOf(7, old), asked) || g.settled(statOf(7, asked.Add(-10*time.Millisecond)), asked) || g.settled(statOf(7, asked.Add(time.Hour)), asked) {
		t.Fatal("a ctime is settled once it is older than the kernel's clock can be late")
	}
	kept := generation{0xfedcba98, handleXFSIno64}
	if !g.put(statOf(7, old), kept, 0) {
		t.Fatal("the first generation took no segment")
	}
	if got, ok := g.get(statOf(7, old), 0); !ok || got != kept || !g.has(7) {
		t.Fatalf("kept %+v, found %+v, %v", kept, got, ok)
	}
	const sameSlot = 7 + 1<<(genSlotBits+genSegBits)
	for what, st := range map[string]*unix.Stat_t{
		"a later ctime":                     statOf(7, old.Add(1)),
		"another slot":                      statOf(8, old),
		"another segment":                   statOf(7+genSlots, old),
		"the same slot":                     statOf(sameSlot, old),
		"a number that no tag has room for": statOf(7+1<<(genSlotBits+genSegBits+genTagBits), old),
	} {
		if got, ok := g.get(st, 0); ok {
			t.Errorf("%s: found %+v", what, got)
		}
		if st.Ino != 7 && g.has(st.Ino) {
			t.Errorf("%s: number %d is kept", what, st.Ino)
		}
	}
	g.put(statOf(sameSlot, old), generation{1, handleIno32}, 0)
	if g.has(7) {
		t.Error("two numbers have one slot")
	}
}

// TestGenerationsAreGivenBack: what is not used for long leaves the table, and FSs have no more
// than the process may have.
func TestGenerationsAreGivenBack(t *testing.T) {
	var g generations
	g.init(time.Nanosecond)
	old := time.Unix(1, 0)
	before := genSegmentsOfAll.Load()
	for i := range uint64(genSegments) + 8 {
		g.put(statOf(i*genSlots, old), generation{1, handleIno32}, uint32(i/64))
	}
	if n := genSegmentsOfAll.Load(); n > maxGenSegments || g.count.Load() != n-before {
		t.Errorf("%d segments, %d of this table", n, g.count.Load())
	}
	g.get(statOf(100*genSlots, old), 1000)
	g.drop(1001, 2)
	if n := g.count.Load(); n != 1 || !g.has(100*genSlots) {
		t.Errorf("%d segments after the others were idle", n)
	}
	g.drop(0, 0)
	if n := genSegmentsOfAll.Load(); n != before {
		t.Errorf("%d segments are still counted, %d before", n, before)
	}
}

// TestHandlesOfNumbersUsedAgain: files that come and go in one directory, with numbers of those
// before them (XFS gives them anew at once), are listed and looked up with the kernel's own
// handles.
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

// reuseNumbers makes, removes and lists files, and returns how many had a number that another had
// before.
func reuseNumbers(t *testing.T, dir string) (again int) {
	f := newFS(t, dir, Options{})
	if !f.byName {
		return 0 // nothing is kept
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
		f.cache.closeAll() // an open file has its number
		must(t, unix.Syncfs(f.tree.root))
		for i := range files {
			must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
		}
		list() // while their numbers are new
		time.Sleep(f.gens.settle + 20*time.Millisecond)
		list()
		if kept := list(); kept < files {
			t.Errorf("generations of %d files in %d are kept", kept, files)
		}
	}
	for i := range files {
		must(t, os.Chmod(filepath.Join(dir, fmt.Sprint(i)), 0o640))
	}
	listPlus(t, f, f.Root(), 1000, func(de *nfsserver.Dirent) {
		if de.Attr.Type == nfsserver.TypeReg && de.Attr.Mode != 0o640 {
			t.Errorf("%s is listed with mode %o", de.Name, de.Attr.Mode)
		}
	})
	return again
}

// checkHandle compares an entry, and what Lookup finds, with the handle that the kernel gives now.
func checkHandle(t *testing.T, f *FS, dir string, de *nfsserver.Dirent, kept *int) {
	t.Helper()
	if string(de.Name) == ".." {
		return
	}
	fd, err := unix.Open(filepath.Join(dir, string(de.Name)), unix.O_PATH|unix.O_NOFOLLOW, 0)
	must(t, err)
	defer unix.Close(fd)
	want, err := kernelRefOf(f.top, fd)
	must(t, err)
	if de.Ref != want {
		t.Errorf("%s is listed with handle %x, and has %x", de.Name, de.Ref.Bytes(), want.Bytes())
	}
	for range 2 { // to open it, and open
		if ref, _, err := f.Lookup(me, f.Root(), string(de.Name)); err != nil || ref != want {
			t.Errorf("%s is looked up as %x, %v, and has %x", de.Name, ref.Bytes(), err, want.Bytes())
		}
	}
	if f.gens.has(de.Fileid) && de.Attr.Type == nfsserver.TypeReg {
		*kept++
	}
}
