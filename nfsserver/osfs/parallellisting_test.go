// Listings by two goroutines have the same result as listings by one.

package osfs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// manyFiles returns a directory with more than two buffers of entries. Each file is as long as the
// number in its name.
func manyFiles(t *testing.T) (f *FS, count int) {
	t.Helper()
	for _, base := range places(t) {
		dir := tempDir(t, base)
		if f = newFS(t, dir, Options{}); !f.byName {
			continue
		}
		for count = range 2*direntBuf/24 + 100 {
			must.Succeed(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(count)), nil, 0o600))
			must.Succeed(t, os.Truncate(filepath.Join(dir, fmt.Sprint(count)), int64(count)))
		}
		return f, count + 1
	}
	machine.Skip(t, "no place here whose entries are described by name")
	return nil, 0
}

// countedPage lists up to n entries of the root from a cookie on, and checks each entry against its
// name. It returns the cookie of the next page.
func countedPage(t *testing.T, f *FS, cookie uint64, n int) (names []string, next uint64, eof bool) {
	t.Helper()
	next = cookie
	eof, err := f.ReadDir(me, f.Root(), cookie, true, func(de *nfsserver.Dirent) bool {
		if len(names) == n {
			return false
		}
		name := string(de.Name)
		if size, err := strconv.Atoi(name); err == nil {
			if !de.HasAttr || de.Attr.Size != uint64(size) {
				t.Errorf("%s: has attributes: %v, got %d bytes, want %d", name, de.HasAttr, de.Attr.Size, size)
			}
			if de.Fileid != de.Attr.Fileid {
				t.Errorf("%s: fileid %d, in the attributes %d", name, de.Fileid, de.Attr.Fileid)
			}
		}
		names, next = append(names, name), de.Cookie
		return true
	})
	if err != nil {
		t.Errorf("list from %d on: %v", cookie, err)
	}
	return names, next, eof
}

// Several callers list a directory with many names at once, in pages of different lengths. All get
// each name once, with its file's attributes, however the work is divided between lister and
// helper.
func TestListingsTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	f, count := manyFiles(t)
	var wg sync.WaitGroup
	for _, n := range []int{count + 2, 1, 31, 65, 100, 333, 700} {
		wg.Go(func() {
			seen := make(map[string]int)
			var cookie uint64
			for pages, eof := 0, false; !eof; pages++ {
				if n == 1 && pages == 200 {
					return
				}
				var names []string
				names, cookie, eof = countedPage(t, f, cookie, n)
				for _, name := range names {
					seen[name]++
				}
			}
			if len(seen) != count+2 {
				t.Errorf("pages of %d: %d names, want %d", n, len(seen), count+2)
			}
			for name, times := range seen {
				if times != 1 {
					t.Errorf("pages of %d: %s %d times", n, name, times)
				}
			}
		})
	}
	wg.Wait()
	// helpers that started too late are counted too, so wait until they have released their lists
	for f.helpers.Load() != 0 {
		runtime.Gosched()
	}
	if got := f.Mechanisms()["parallel_listing"]; got.Won == 0 {
		t.Errorf("counts %+v, want some that are won", got)
	}
}

// The lister describes all parts that the helper has not begun, and without a helper all parts; the
// order is the same.
func TestListingAlone(t *testing.T) {
	f, count := manyFiles(t)
	with, _, _ := countedPage(t, f, 0, count+2)
	f.helpers.Add(1 << 20) // as if all helpers were busy
	defer f.helpers.Add(-1 << 20)
	before := f.Mechanisms()["parallel_listing"]
	alone, _, eof := countedPage(t, f, 0, count+2)
	if !eof || !slices.Equal(with, alone) {
		t.Errorf("%d names alone, %d together", len(alone), len(with))
	}
	if got := f.Mechanisms()["parallel_listing"].Since(before); got.Passed == 0 || got.Won+got.Lost > 0 {
		t.Errorf("alone: counts %+v, want only some that are passed", got)
	}
}

// The parts of a buffer contain all its entries, however many there are. Bytes after the last entry
// end the last part.
func TestPartsOfABuffer(t *testing.T) {
	entry := make([]byte, 24)
	entry[16] = 24
	var s parallelListing
	for n := range 4 * partEntries {
		var b []byte
		for range n {
			b = append(b, entry...)
		}
		for _, more := range []int{0, 7} {
			s.split(append(b, make([]byte, more)...))
			if want := (n + partEntries - 1) / partEntries; s.parts != want {
				t.Fatalf("%d entries: %d parts, want %d", n, s.parts, want)
			}
			got := 0
			var raw rawDirent
			for k := range s.parts {
				of := 0
				for p := raw.next(s.part(k)); p != nil; p = raw.next(p) {
					of++
				}
				if got += of; of == 0 || of > partEntries {
					t.Fatalf("%d entries: %d in part %d", n, of, k)
				}
			}
			if got != n {
				t.Fatalf("%d entries of %d", got, n)
			}
		}
	}
}

// The lister keeps its buffer and descriptor while the helper works, however long this takes. It
// does not wait for a helper that has not begun, and such a helper then does nothing.
func TestSecondIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &parallelListing{f: new(FS)}
		s.users.Store(3)
		s.help.Store(helperRuns)
		var left atomic.Bool
		go func() {
			s.leave()
			left.Store(true)
		}()
		time.Sleep(time.Second)
		if left.Load() {
			t.Error("the second was at work")
		}
		s.help.Store(helperDone)
		time.Sleep(time.Second)
		if !left.Load() {
			t.Error("the second is done")
		}
		s.help.Store(helperAsked)
		s.leave()
		s.stop.Store(false) // a helper that had begun would describe parts of the empty list
		s.parts = 2
		s.f.helpers.Add(1)
		s.runHelper()
		if s.claim[1].Load() {
			t.Error("it has begun")
		}
	})
}
