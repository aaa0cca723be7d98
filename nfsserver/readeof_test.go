// The end of a file that grows and shrinks during reads.

package nfsserver_test

import (
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A restlessFS changes a file before and after each ReadAt, as another client's WRITE and SETATTR
// may.
type restlessFS struct {
	nfsserver.FS

	mu sync.Mutex
	// run before and after each ReadAt; guarded by mu
	before, after func(c nfsserver.Cred, r nfsserver.Ref)
}

// around sets the functions that run before and after each ReadAt.
func (f *restlessFS) around(before, after func(c nfsserver.Cred, r nfsserver.Ref)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *restlessFS) ReadAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	f.mu.Lock()
	before, after := f.before, f.after
	f.mu.Unlock()
	before(c, r)
	defer after(c, r)
	return f.FS.ReadAt(c, r, p, off)
}

// TestReadWithoutDataIsAtTheEnd: a reply without data has EOF. Clients treat a reply without data
// and EOF as an I/O error.
func TestReadWithoutDataIsAtTheEnd(t *testing.T) {
	fs := &restlessFS{FS: memory(t)}
	same := func(nfsserver.Cred, nfsserver.Ref) {}
	resize := func(n uint64) func(nfsserver.Cred, nfsserver.Ref) {
		return func(c nfsserver.Cred, r nfsserver.Ref) {
			if err := fs.FS.Setattr(c, r, &nfsserver.SetAttr{Mask: nfsserver.SetSize, Size: n}); err != nil {
				t.Errorf("Setattr: %v", err)
			}
		}
	}
	c := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: fs}}}).dial(root).mount("/x")
	f := c.file(c.root, "f", 0o644)
	for _, x := range []struct {
		name          string
		before, after func(nfsserver.Cred, nfsserver.Ref)
		off           uint64
	}{
		{"at the end, and it grows", same, resize(10), 5},
		{"it shrinks, and grows again", resize(0), resize(10), 2},
		{"it shrinks", resize(1), same, 2},
	} {
		fs.around(same, same)
		c.want("SETATTR", c.setattr(f, nfs3.Sattr{SetSize: true, Size: 5}).Status, nfs3.OK)
		fs.around(x.before, x.after)
		res, data := c.read(f, x.off, 100)
		c.want(x.name, res.Status, nfs3.OK)
		if data != "" || !res.EOF {
			t.Errorf("%s: %d bytes, EOF %v, want none and true", x.name, len(data), res.EOF)
		}
	}
}
