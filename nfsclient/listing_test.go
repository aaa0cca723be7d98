// Listings by servers that lose their cookies or loop, and through io/fs.

package nfsclient_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// listing serves READDIRPLUS with the pages that next returns for a cookie and a call number.
func listing(next func(cookie uint64, call int64) *nfs3.ReaddirplusRes) (map[uint32]func(run) run, *atomic.Int64) {
	calls := new(atomic.Int64)
	return map[uint32]func(run) run{nfs3.ProcReaddirplus: func(run) run {
		return func(c *transport.Call) error {
			var args nfs3.ReaddirplusArgs
			args.DecodeXDR(c.Args)
			next(args.Cookie, calls.Add(1)).EncodeXDR(c.Res)
			return nil
		}
	}}, calls
}

func entryPlus(n uint64, cookie uint64) nfs3.EntryPlus {
	return nfs3.EntryPlus{Fileid: n + 2, Name: fmt.Appendf(nil, "n%d", n), Cookie: cookie}
}

// A listing ends if its cookies loop, however long the loop is, and however many cookies come
// before the loop.
func TestListingsInACircleEnd(t *testing.T) {
	for _, c := range []struct{ lead, circle uint64 }{{0, 2}, {1, 1}, {0, 7}, {5, 3}, {13, 40}} {
		rows, calls := listing(func(cookie uint64, _ int64) *nfs3.ReaddirplusRes {
			next := cookie + 1
			if next > c.lead+c.circle {
				next = c.lead + 1
			}
			return &nfs3.ReaddirplusRes{Entries: []nfs3.EntryPlus{entryPlus(cookie, next)}}
		})
		faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
			calls.Store(0)
			if _, err := fsys.ReadDir(t.Context(), "/"); err == nil {
				t.Errorf("%+v: no error", c)
			}
			if n := calls.Load(); n > 4*int64(c.lead+c.circle)+4 {
				t.Errorf("%+v: %d calls", c, n)
			}
		})
	}
}

// After a server has dropped its cookies, as some do when a directory changes, the listing restarts
// and each name comes once. The client gives up on a server that always rejects cookies.
func TestListingsBeginAgainAfterBadCookie(t *testing.T) {
	var forget atomic.Int64 // number of failing calls in the middle
	rows, _ := listing(func(cookie uint64, _ int64) *nfs3.ReaddirplusRes {
		if cookie == 3 && forget.Add(-1) >= 0 {
			return &nfs3.ReaddirplusRes{Status: nfs3.ErrBadCookie}
		}
		return &nfs3.ReaddirplusRes{Entries: []nfs3.EntryPlus{entryPlus(cookie, cookie+1)}, EOF: cookie == 5}
	})
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		forget.Store(2)
		var got []string
		for e, err := range fsys.Entries(t.Context(), "/") {
			must.Succeed(t, err)
			got = append(got, e.Name())
		}
		if want := []string{"n0", "n1", "n2", "n3", "n4", "n5"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		forget.Store(1 << 40)
		if _, err := fsys.ReadDir(t.Context(), "/"); !errors.Is(err, syscall.ESTALE) {
			t.Errorf("for ever: %v", err)
		}
	})
}

// Entries read before an error are not dropped.
func TestIOReadDirGivesThePartItHas(t *testing.T) {
	rows, _ := listing(func(cookie uint64, _ int64) *nfs3.ReaddirplusRes {
		if cookie == 3 {
			return &nfs3.ReaddirplusRes{Status: nfs3.ErrIO}
		}
		return &nfs3.ReaddirplusRes{Entries: []nfs3.EntryPlus{entryPlus(cookie, cookie+1)}}
	})
	faulty(t, rows, func(t *testing.T, fsys *nfsclient.FS) {
		open := func() fs.ReadDirFile {
			d, err := fsys.IO(t.Context()).Open(".")
			must.Succeed(t, err)
			return d.(fs.ReadDirFile)
		}
		if list, err := open().ReadDir(-1); len(list) != 3 || !errors.Is(err, syscall.EIO) {
			t.Errorf("all: %d, %v", len(list), err)
		}
		d := open()
		if list, err := d.ReadDir(10); len(list) != 3 || err != nil {
			t.Errorf("ten: %d, %v", len(list), err)
		}
		if list, err := d.ReadDir(10); len(list) != 0 || !errors.Is(err, syscall.EIO) {
			t.Errorf("then: %d, %v", len(list), err)
		}
	})
}

// Symbolic links below fs.Sub lead to the same objects as below os.DirFS.
func TestIOSubFollowsLinksAsDirFS(t *testing.T) {
	top := t.TempDir()
	fsys := mountDir(t, top)
	must.Succeed(t, os.MkdirAll(filepath.Join(top, "a/b/c"), 0o755))
	for _, f := range []string{"f", "a/f", "a/b/f"} {
		must.Succeed(t, os.WriteFile(filepath.Join(top, f), []byte(f), 0o600))
	}
	for link, target := range map[string]string{"a/b/up": "../f", "a/b/upup": "../../f", "a/b/c/far": "../../../a/f", "a/l": "b", "a/b/self": "../b/f"} {
		must.Succeed(t, os.Symlink(target, filepath.Join(top, link)))
	}
	for _, dir := range []string{"a", "a/b", "a/l", "a/b/c"} {
		want, err := fs.Sub(os.DirFS(top), dir)
		must.Succeed(t, err)
		got, err := fs.Sub(fsys.IO(t.Context()), dir)
		must.Succeed(t, err)
		for _, p := range []string{"f", "up", "upup", "far", "self", "b/up", "l/upup", "c/far", "b/c/far", "none"} {
			x, e1 := fs.ReadFile(want, p)
			y, e2 := fs.ReadFile(got, p)
			if string(x) != string(y) || (e1 == nil) != (e2 == nil) {
				t.Errorf("%s of %s: %q, %v; os.DirFS: %q, %v", p, dir, y, e2, x, e1)
			}
		}
	}
	// Sub of a Sub must give the same
	once, err := fs.Sub(fsys.IO(t.Context()), "a")
	must.Succeed(t, err)
	twice, err := fs.Sub(once, "b")
	must.Succeed(t, err)
	if b, err := fs.ReadFile(twice, "upup"); err != nil || string(b) != "f" {
		t.Errorf("below two: %q, %v", b, err)
	}
}
