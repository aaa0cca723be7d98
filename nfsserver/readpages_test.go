// What becomes of a READ whose data is in a pipe when it fails after all.

package nfsserver_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A emptiedFS gives pages of a file that somebody removes at that very moment.
type emptiedFS struct {
	nfsserver.FS
	pages  *os.File
	piped  atomic.Int32
	vanish atomic.Bool
}

func (f *emptiedFS) ReadPages(_ nfsserver.Cred, _ nfsserver.Ref, p *mem.Pipe, n int, off uint64) (int, error) {
	for p.Len() < n {
		if _, err := p.Fill(int(f.pages.Fd()), int64(off)+int64(p.Len()), n-p.Len()); err != nil {
			return 0, err
		}
	}
	f.piped.Add(1)
	f.vanish.Store(true)
	return n, nil
}

func (f *emptiedFS) Getattr(r nfsserver.Ref) (nfsserver.Attr, error) {
	if f.vanish.Swap(false) {
		return nfsserver.Attr{}, nfsserver.ErrStale
	}
	return f.FS.Getattr(r)
}

// TestReadOfPagesThatFails: the client is told the status, over both transports: its READ has not been refused as a bad message.
func TestReadOfPagesThatFails(t *testing.T) {
	const size = 2 * mem.PipeMin
	name := filepath.Join(t.TempDir(), "pages")
	if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	pages, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pages.Close() })
	fs := &emptiedFS{FS: memory(t), pages: pages}
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: fs}}})
	for what, c := range map[string]*client{"TCP": h.dial(root), "RDMA": h.dialRDMA(root)} {
		f := c.mount("/x").file(c.root, what, 0o644)
		c.want("SETATTR", c.setattr(f, nfs3.Sattr{SetSize: true, Size: size}).Status, nfs3.OK)
		fs.piped.Store(0)
		var res nfs3.ReadRes
		if err := c.try(nfs3.ProcRead, &nfs3.ReadArgs{FH: f, Count: size}, &res); err != nil || res.Status != nfs3.ErrStale {
			t.Errorf("%s: %v, %v", what, err, res.Status)
		}
		if fs.piped.Load() != 1 {
			t.Errorf("%s: the data was in a pipe %d times", what, fs.piped.Load())
		}
	}
}
