// How many descriptors listings take.

package osfs

import (
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestListingsAreBounded: listings of many directories that clients have begun
// take no more descriptors than the budget has, and go on all the same.
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
