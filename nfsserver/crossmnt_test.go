// Nested exports, entered through the outer export or not.

package nfsserver_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// TestExportsInside: an inner export is on another file system. With crossmnt on the outer export,
// or nohide on the inner one, its clients can enter it. The inner export's rules apply inside. A
// listing gives no handle of the covered directory.
func TestExportsInside(t *testing.T) {
	for _, c := range []struct {
		name, up, down string
		enters         bool
	}{
		{"hidden", "rw", "ro", false},
		{"nohide", "rw", "ro,nohide", true},
		{"crossmnt", "rw,crossmnt", "ro", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := serve(t, nfsserver.Options{Squash: remote, Exports: ruled(t,
				"/srv *(insecure,"+c.up+")\n/srv/a/in 127.0.0.1(insecure,"+c.down+")\n")})
			cl := h.dialFrom("127.0.0.1", user)["tcp"].mount("/srv")
			a := cl.dir(cl.root, "a", 0o777)
			under := cl.dir(a, "in", 0o777)
			// elsewhere has the same name in another directory
			elsewhere := cl.dir(cl.dir(cl.root, "b", 0o777), "in", 0o777)
			got := cl.lookup(a, "in")
			inside := h.srv.RootHandle("/srv/a/in")
			switch {
			case c.enters && got.FH != inside:
				t.Error("LOOKUP does not lead into the export below")
			case !c.enters && got.FH != under:
				t.Error("LOOKUP leads out of its export")
			}
			if st := cl.create(got.FH, "f", nfs3.Unchecked, nfs3.Sattr{}, nfs3.Verf{}).Status; (st == nfs3.ErrROFS) != c.enters {
				t.Errorf("CREATE below: %v", st)
			}
			if cl.lookup(cl.lookup(cl.root, "b").FH, "in").FH != elsewhere {
				t.Error("another directory of the same name is not itself")
			}
			two := h.dialFrom("127.0.0.2", user)["tcp"]
			if fh := two.lookup(a, "in").FH; fh != under {
				t.Error("who is no client of the export below does not see the directory")
			}
			var res nfs3.ReaddirplusRes
			cl.call(nfs3.ProcReaddirplus, &nfs3.ReaddirplusArgs{Dir: a, Dircount: 4096, Maxcount: 4096}, &res)
			for _, e := range res.Entries {
				if string(e.Name) == "in" && e.FH.Present == c.enters {
					t.Errorf("READDIRPLUS gives a handle: %v", e.FH.Present)
				}
			}
		})
	}
}

// An indexedFS has all names in memory; Lookup reads its disk.
type indexedFS struct {
	nfsserver.FS
	slow  atomic.Bool
	asked chan struct{} // receives when Lookup has begun
	goOn  chan struct{}
}

func (*indexedFS) InUse(nfsserver.Ref) bool { return true }

func (f *indexedFS) LookupInUse(c nfsserver.Cred, r nfsserver.Ref, name string) (nfsserver.Ref, nfsserver.Attr, bool) {
	got, at, err := f.FS.Lookup(c, r, name)
	return got, at, err == nil
}

func (*indexedFS) ReadsInUse(nfsserver.Ref) bool { return false }

func (*indexedFS) ReadInUse(nfsserver.Cred, nfsserver.Ref, []byte, uint64) (int, bool) {
	return 0, false
}

func (f *indexedFS) Lookup(c nfsserver.Cred, r nfsserver.Ref, name string) (nfsserver.Ref, nfsserver.Attr, error) {
	if f.slow.Load() {
		f.asked <- struct{}{}
		<-f.goOn
	}
	return f.FS.Lookup(c, r, name)
}

// TestNestedIsLookedForBusy: a name in memory is also the name of a nested export. LOOKUP asks the
// disk whether the name leads to that export. Other calls on the connection do not wait for it.
func TestNestedIsLookedForBusy(t *testing.T) {
	list := ruled(t, "/srv *(insecure,rw)\n/srv/a/in 127.0.0.1(insecure,ro,nohide)\n")
	fs := &indexedFS{FS: list[0].FS, asked: make(chan struct{}, 100), goOn: make(chan struct{}, 100)}
	list[0].FS = fs
	h := serve(t, nfsserver.Options{Squash: remote, Exports: list})
	c := h.dialFrom("127.0.0.1", user)["tcp"].mount("/srv")
	c.dir(c.root, "a", 0o777)
	b := c.dir(c.root, "b", 0o777)
	c.dir(b, "in", 0o777)
	c.getattr(b)
	fs.slow.Store(true)
	least := time.Hour // the shortest wait; without a follower at least 2 ms
	for range 30 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			var res nfs3.LookupRes
			c.call(nfs3.ProcLookup, &nfs3.LookupArgs{Dir: b, Name: []byte("in")}, &res)
		}()
		<-fs.asked
		began := time.Now()
		c.getattr(b)
		least = min(least, time.Since(began))
		fs.goOn <- struct{}{}
		<-done
	}
	fs.slow.Store(false)
	if least > time.Millisecond {
		t.Errorf("a call waits for %v for one that asks the disk, want less", least)
	}
}
