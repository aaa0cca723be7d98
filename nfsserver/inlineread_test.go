// READs that run on the receiving goroutine, and READs that find out that they would wait.

package nfsserver_test

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A hotFS reports that its files are in memory, or that they are not.
type hotFS struct {
	nfsserver.FS
	cold               atomic.Bool
	now, tried, waited atomic.Int32
}

func (*hotFS) InUse(nfsserver.Ref) bool { return true }

func (*hotFS) LookupInUse(nfsserver.Cred, nfsserver.Ref, string) (r nfsserver.Ref, a nfsserver.Attr, ok bool) {
	return r, a, false
}

func (f *hotFS) ReadsInUse(nfsserver.Ref) bool { return true }

func (f *hotFS) ReadInUse(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, bool) {
	f.tried.Add(1)
	if f.cold.Load() {
		for i := range p {
			p[i] = 0xee
		}
		return 0, false
	}
	f.now.Add(1)
	n, err := f.FS.ReadAt(c, r, p, off)
	return n, err == nil && n == len(p)
}

func (f *hotFS) ReadAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	f.waited.Add(1)
	return f.FS.ReadAt(c, r, p, off)
}

// TestReadsRunInline: a short READ of cached data runs inline, and any other READ on a worker, with
// the same results.
func TestReadsRunInline(t *testing.T) {
	fs := &hotFS{FS: memory(t)}
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: fs}}})
	data := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
	for what, c := range map[string]*client{"TCP": h.dial(root), "RDMA": h.dialRDMA(root)} {
		f := c.mount("/x").file(c.root, what, 0o644)
		var wrote nfs3.WriteRes
		if err := c.try(nfs3.ProcWrite, &nfs3.WriteArgs{FH: f, Count: uint32(len(data)), Data: data}, &wrote); err != nil || wrote.Status != nfs3.OK {
			t.Fatalf("%s: WRITE: %v, %v", what, err, wrote.Status)
		}
		for _, x := range []struct {
			name               string
			cold               bool
			off                uint64
			count              uint32
			now, tried, waited int32
		}{
			{"in memory", false, 100, 4096, 1, 1, 0},
			{"the longest", false, 0, 16 << 10, 1, 1, 0},
			{"longer", false, 0, 16<<10 + 1, 0, 0, 1},
			{"not in memory", true, 100, 4096, 0, 1, 1},
			{"to the end", false, uint64(len(data)) - 10, 4096, 1, 1, 0},
			{"at the end", false, uint64(len(data)), 4096, 0, 0, 1},
		} {
			fs.cold.Store(x.cold)
			fs.now.Store(0)
			fs.tried.Store(0)
			fs.waited.Store(0)
			var res nfs3.ReadRes
			if err := c.try(nfs3.ProcRead, &nfs3.ReadArgs{FH: f, Offset: x.off, Count: x.count}, &res); err != nil || res.Status != nfs3.OK {
				t.Fatalf("%s, %s: %v, %v", what, x.name, err, res.Status)
			}
			end := min(x.off+uint64(x.count), uint64(len(data)))
			if !bytes.Equal(res.Data, data[x.off:end]) || res.EOF != (end == uint64(len(data))) {
				t.Errorf("%s, %s: %d bytes, end %v", what, x.name, len(res.Data), res.EOF)
			}
			if got, want := [3]int32{fs.tried.Load(), fs.now.Load(), fs.waited.Load()}, [3]int32{x.tried, x.now, x.waited}; got != want {
				t.Errorf("%s, %s: attempts, inline reads and reads by a worker %v, want %v", what, x.name, got, want)
			}
		}
	}
}
