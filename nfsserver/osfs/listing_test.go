// How many descriptors listings take.

package osfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestListingsAreBounded: unfinished listings of many directories keep no more descriptors than the
// budget allows, and all of them can be continued.
func TestListingsAreBounded(t *testing.T) {
	const dirs = 20
	f := newFS(t, t.TempDir(), Options{})
	limitNodes(t, 2*dirs)
	before, kept := openFDs(t), shared.listings.Load()
	var refs []nfsserver.Ref
	for i := range dirs {
		d, _, err := f.Mkdir(me, f.Root(), fmt.Sprint(i), &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
		must.Succeed(t, err)
		for name := range 4 {
			createFile(t, f, d, fmt.Sprint(name), "")
		}
		refs = append(refs, d)
	}
	for range maxListings {
		for _, d := range refs {
			n := 0
			_, err := f.ReadDir(me, d, 0, false, func(*nfsserver.Dirent) bool { n++; return n < 3 })
			must.Succeed(t, err)
		}
	}
	if n := shared.listings.Load() - kept; n > 2*dirs {
		t.Errorf("%d listings are kept with a limit of %d", n, 2*dirs)
	}
	if n := openFDs(t) - before; n > 2*dirs*3+2*dirs {
		t.Errorf("%d descriptors with a limit of %d files", n, 2*dirs)
	}
	f.cache.closeAll()
	if n := shared.listings.Load(); n != kept {
		t.Errorf("%d listings are counted when all are closed, %d before", n, kept)
	}
}

// A page requests about as many bytes of entries from the kernel as the last full page took.
func TestPageSize(t *testing.T) {
	var s pageSize
	for _, x := range []struct{ last, taken, want int }{
		{0, 0, direntBuf}, {0, direntBuf, direntBuf}, // no page has been full
		{16 << 10, 0, 17 << 10}, {16 << 10, 10 << 10, 7 << 10}, {16 << 10, 17<<10 - 1, direntLeast},
		{16 << 10, 17 << 10, 17 << 10}, {1 << 10, 2 << 10, 2 << 10}, {100, 0, direntLeast}, {100, 110, direntLeast}, // a longer page
		{1 << 20, 0, direntBuf}, {1 << 20, 1 << 20, direntBuf}, // pages that take several buffers
	} {
		s.set(x.last)
		if got := s.rest(x.taken); got != x.want {
			t.Errorf("after a page of %d bytes, with %d taken: got %d, want %d", x.last, x.taken, got, x.want)
		}
	}
}

// Only full pages set the size. Pages with any number of names have each name once, whatever the
// size of the pages before.
func TestPagesOfManyLengths(t *testing.T) {
	dir := tempDir(t, os.TempDir())
	const count = 300
	for i := range count {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, strings.Repeat("x", i%200)+fmt.Sprint(i)), nil, 0o600))
	}
	f := newFS(t, dir, Options{})
	for _, plus := range []bool{false, true} {
		for _, n := range []int{count + 2, 7, 100, 1, 250} {
			seen := map[string]int{}
			var next uint64
			for eof := false; !eof; {
				page := 0
				var err error
				eof, err = f.ReadDir(me, f.Root(), next, plus, func(de *nfsserver.Dirent) bool {
					if page == n {
						return false
					}
					page++
					seen[string(de.Name)]++
					next = de.Cookie
					return true
				})
				must.Succeed(t, err)
			}
			if len(seen) != count+2 {
				t.Errorf("pages of %d, plus %v: got %d names, want %d", n, plus, len(seen), count+2)
			}
			for name, times := range seen {
				if times != 1 {
					t.Errorf("pages of %d, plus %v: got %s %d times, want once", n, plus, name, times)
				}
			}
			size := &f.lastPage
			if plus {
				size = &f.lastPagePlus
			}
			if full := n <= count; (size.bytes.Load() > 0) != full {
				t.Errorf("pages of %d, plus %v: the last full page took %d bytes, want some: %v", n, plus, size.bytes.Load(), full)
			}
		}
	}
}
