// Reads of what no cache has: the same bytes, with the ring and without.

package osfs

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/uring"
	"golang.org/x/sys/unix"
)

func TestColdReads(t *testing.T) {
	want := make([]byte, 1<<20)
	rand.Read(want)
	for place, base := range places(t) {
		for name, use := range map[string]func() *uring.Ring{"ring": ring, "no ring": func() *uring.Ring { return nil }} {
			t.Run(place+" "+name, func(t *testing.T) {
				defer func(f func() *uring.Ring) { ring = f }(ring)
				ring = use
				dir := tempDir(t, base)
				file, err := os.Create(filepath.Join(dir, "f"))
				must(t, err)
				defer file.Close()
				_, err = file.Write(want)
				must(t, err)
				must(t, file.Sync())
				must(t, unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED))
				f := newFS(t, dir, Options{})
				r, _, err := f.Lookup(me, f.Root(), "f")
				must(t, err)
				var wg sync.WaitGroup
				for g := range 8 {
					wg.Go(func() {
						for i := range 32 {
							off := (i*8 + g) * 4096
							p := make([]byte, 4096*(1+i%3)) // some of it may be there already
							n, err := f.ReadAt(me, r, p, uint64(off))
							if end := min(off+len(p), len(want)); err != nil || !bytes.Equal(p[:n], want[off:end]) {
								t.Errorf("at %d: %d bytes, %v", off, n, err)
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}
