// WRITEs by several clients to one file.

package nfsserver_test

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A piecemealFS writes in pieces, and lets other calls run in between.
type piecemealFS struct {
	nfsserver.FS
	writing atomic.Int32
}

const pieces = 16

func (f *piecemealFS) WriteAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	f.writing.Add(1)
	defer f.writing.Add(-1)
	for i := 0; i < 1000 && f.writing.Load() < 2; i++ {
		runtime.Gosched() // gives another WRITE time to come in, if it may
	}
	for done := 0; done < len(p); {
		n, err := f.FS.WriteAt(c, r, p[done:min(len(p), done+len(p)/pieces)], off+uint64(done))
		if err != nil {
			return done, err
		}
		done += n
		runtime.Gosched()
	}
	return len(p), nil
}

// TestWritesAreNotMixed: two WRITEs to the same bytes run concurrently. All bytes are then from one
// of them, in whatever pieces the FS writes.
func TestWritesAreNotMixed(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/e", FS: &piecemealFS{FS: memory(t)}}}})
	clients := []*client{h.dial(root).mount("/e"), h.dialRDMA(root).mount("/e")}
	f := clients[0].file(clients[0].root, "f", 0o644)
	const size = pieces * 512
	for range 50 {
		var wg sync.WaitGroup
		for i, c := range clients {
			wg.Go(func() {
				var res nfs3.WriteRes
				args := nfs3.WriteArgs{FH: f, Count: size, Data: []byte(strings.Repeat(string(rune('a'+i)), size))}
				if err := c.try(nfs3.ProcWrite, &args, &res); err != nil {
					t.Errorf("WRITE: %v", err)
				}
				if res.Status != nfs3.OK || res.Count != size {
					t.Errorf("WRITE: %v, %d bytes, want %d", res.Status, res.Count, size)
				}
			})
		}
		wg.Wait()
		if _, got := clients[0].read(f, 0, size); got != strings.Repeat(got[:1], size) {
			t.Fatalf("bytes of both: %d of one", strings.Count(got, "a"))
		}
	}
}
