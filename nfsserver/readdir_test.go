// READDIR and READDIRPLUS: sizes that are exact to the byte, and 100,000 names.

package nfsserver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"golang.org/x/sys/unix"
)

func (c *client) readdir(a nfs3.ReaddirArgs) (res nfs3.ReaddirRes, size int) {
	c.Helper()
	keep := sized{Unmarshaler: &res}
	c.call(nfs3.ProcReaddir, &a, &keep)
	return res, keep.size
}

func (c *client) readdirplus(a nfs3.ReaddirplusArgs) (res nfs3.ReaddirplusRes, size int) {
	c.Helper()
	keep := sized{Unmarshaler: &res}
	c.call(nfs3.ProcReaddirplus, &a, &keep)
	return res, keep.size
}

// A sized copies the names out of the message, and measures the size of the result after the
// status.
type sized struct {
	xdr.Unmarshaler
	size int
}

func (s *sized) DecodeXDR(d *xdr.Decoder) {
	start := d.Offset()
	s.Unmarshaler.DecodeXDR(d)
	s.size = d.Offset() - start - 4
	switch r := s.Unmarshaler.(type) {
	case *nfs3.ReaddirRes:
		for i := range r.Entries {
			r.Entries[i].Name = slices.Clone(r.Entries[i].Name)
		}
	case *nfs3.ReaddirplusRes:
		for i := range r.Entries {
			r.Entries[i].Name = slices.Clone(r.Entries[i].Name)
		}
	}
}

// list reads a whole directory with READDIR.
func (c *client) list(dir nfs3.FH, count uint32) (names []string) {
	c.Helper()
	var cookie uint64
	var verf nfs3.Verf
	for {
		res, size := c.readdir(nfs3.ReaddirArgs{Dir: dir, Cookie: cookie, Verf: verf, Count: count})
		c.want("READDIR", res.Status, nfs3.OK)
		if size > int(count) {
			c.Fatalf("READDIR at %d: %d bytes, want at most count %d", cookie, size, count)
		}
		if len(res.Entries) == 0 && !res.EOF {
			c.Fatalf("READDIR at %d: an empty page before the end", cookie)
		}
		verf = res.Verf
		for _, e := range res.Entries {
			names, cookie = append(names, string(e.Name)), e.Cookie
		}
		if res.EOF {
			return names
		}
	}
}

// listPlus reads a whole directory with READDIRPLUS.
func (c *client) listPlus(dir nfs3.FH, dircount, maxcount uint32) (names []string) {
	c.Helper()
	var cookie uint64
	var verf nfs3.Verf
	for {
		res, size := c.readdirplus(nfs3.ReaddirplusArgs{Dir: dir, Cookie: cookie, Verf: verf, Dircount: dircount, Maxcount: maxcount})
		c.want("READDIRPLUS", res.Status, nfs3.OK)
		if size > int(maxcount) {
			c.Fatalf("READDIRPLUS at %d: %d bytes, want at most maxcount %d", cookie, size, maxcount)
		}
		if len(res.Entries) == 0 && !res.EOF {
			c.Fatalf("READDIRPLUS at %d: an empty page before the end", cookie)
		}
		verf = res.Verf
		dirBytes := 0
		for _, e := range res.Entries {
			names, cookie = append(names, string(e.Name)), e.Cookie
			dirBytes += nfs3.EntrySize(len(e.Name))
			if string(e.Name) == ".." {
				continue
			}
			if !e.Attr.Present || !e.FH.Present {
				c.Fatalf("READDIRPLUS %q: attributes %v, handle %v, want both", e.Name, e.Attr.Present, e.FH.Present)
			}
			if e.Fileid != e.Attr.Attr.Fileid {
				c.Fatalf("READDIRPLUS %q: fileid %d, in its attributes %d", e.Name, e.Fileid, e.Attr.Attr.Fileid)
			}
		}
		if len(res.Entries) > 1 && dirBytes > int(dircount) {
			c.Fatalf("READDIRPLUS: %d bytes of names, dircount %d", dirBytes, dircount)
		}
		if res.EOF {
			return names
		}
	}
}

func TestReaddirSizes(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		want := []string{".", ".."}
		for i := range 100 {
			name := fmt.Sprintf("%0*d", i%40+3, i)
			c.file(c.root, name, 0o644)
			want = append(want, name)
		}
		slices.Sort(want)
		for _, count := range []uint32{180, 200, 201, 203, 204, 512, 1000, 4096, 8192, 1 << 20, 1<<32 - 1} {
			if got := c.list(c.root, count); !slices.Equal(sortedNames(got), want) {
				t.Errorf("READDIR with count %d: %d names", count, len(got))
			}
		}
		for _, maxcount := range []uint32{400, 512, 1000, 4096, 65536, 1<<32 - 1} {
			for _, dircount := range []uint32{0, 100, 512, 1 << 20} {
				if got := c.listPlus(c.root, dircount, maxcount); !slices.Equal(sortedNames(got), want) {
					t.Errorf("READDIRPLUS with dircount %d, maxcount %d: %d names", dircount, maxcount, len(got))
				}
			}
		}
		// count is exactly the size with the first entry, and then one byte less
		first, _ := c.readdir(nfs3.ReaddirArgs{Dir: c.root, Count: 1 << 16})
		exact := uint32(nfs3.ListSize(true) + nfs3.EntrySize(len(first.Entries[0].Name)))
		if res, size := c.readdir(nfs3.ReaddirArgs{Dir: c.root, Count: exact}); len(res.Entries) != 1 || size != int(exact) {
			t.Errorf("READDIR with room for one entry: %d entries, %d bytes of %d", len(res.Entries), size, exact)
		}
		for _, count := range []uint32{0, 1, 100, exact - 1} {
			res, _ := c.readdir(nfs3.ReaddirArgs{Dir: c.root, Count: count})
			c.want("READDIR with no room", res.Status, nfs3.ErrTooSmall)
			plus, _ := c.readdirplus(nfs3.ReaddirplusArgs{Dir: c.root, Dircount: count, Maxcount: count})
			c.want("READDIRPLUS with no room", plus.Status, nfs3.ErrTooSmall)
			if !res.DirAttr.Present || !plus.DirAttr.Present {
				t.Error("no attributes with TOOSMALL")
			}
		}
	})
}

// TestPagesAreFull: an entry that just fits the client's limits is in the page. This holds for
// count, dircount and maxcount.
func TestPagesAreFull(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		for i := range 6 {
			c.file(c.root, fmt.Sprint("name", i), 0o644)
		}
		all, _ := c.readdirplus(nfs3.ReaddirplusArgs{Dir: c.root, Dircount: 1 << 16, Maxcount: 1 << 16})
		if len(all.Entries) != 8 || !all.EOF {
			t.Fatalf("%d entries", len(all.Entries))
		}
		names, plus := 0, nfs3.ListSize(true)
		for i, e := range all.Entries {
			names += nfs3.EntrySize(len(e.Name))
			plus += nfs3.EntryPlusSize(len(e.Name), &e.Attr, &e.FH)
			count := nfs3.ListSize(true) + names
			for _, less := range []int{0, 1} {
				if i < less {
					continue // not even the first entry would fit
				}
				want := i + 1 - less
				res, _ := c.readdir(nfs3.ReaddirArgs{Dir: c.root, Count: uint32(count - less)})
				if len(res.Entries) != want || res.EOF != (want == len(all.Entries)) {
					t.Errorf("READDIR, %d less than %d entries need: %d, end %v", less, i+1, len(res.Entries), res.EOF)
				}
				byDir, _ := c.readdirplus(nfs3.ReaddirplusArgs{Dir: c.root, Dircount: uint32(names - less), Maxcount: 1 << 16})
				byMax, _ := c.readdirplus(nfs3.ReaddirplusArgs{Dir: c.root, Dircount: 1 << 16, Maxcount: uint32(plus - less)})
				if len(byDir.Entries) != want || len(byMax.Entries) != want {
					t.Errorf("READDIRPLUS, %d less than %d entries need: %d by dircount, %d by maxcount", less, i+1, len(byDir.Entries), len(byMax.Entries))
				}
			}
		}
	})
}

// TestListingWithinBudget: if there is no memory for a whole listing, the page ends early, and the
// next page continues there.
func TestListingWithinBudget(t *testing.T) {
	srv, err := nfsserver.New(nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: memory(t)}}})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	const budget = 128 << 10
	svc, err := srv.Start(nfsserver.Listen{TCP: "127.0.0.1:0", RPC: transport.ServerConfig{MaxRecord: 64 << 10, Budget: mem.NewBudget(budget)}})
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	h := &host{t, srv, svc}
	t.Cleanup(h.stop)
	c := h.dial(root).mount("/x")
	const files = 1500
	for i := range files {
		c.file(c.root, fmt.Sprint("a-name-of-some-length-", i), 0o644)
	}
	res, size := c.readdirplus(nfs3.ReaddirplusArgs{Dir: c.root, Dircount: 1 << 20, Maxcount: 1 << 20})
	c.want("READDIRPLUS", res.Status, nfs3.OK)
	if len(res.Entries) == 0 || res.EOF {
		t.Errorf("%d entries, EOF %v, want some and false", len(res.Entries), res.EOF)
	}
	if size > budget {
		t.Errorf("%d bytes, want at most %d", size, budget)
	}
	if n := len(c.listPlus(c.root, 1<<20, 1<<20)); n != files+2 {
		t.Errorf("%d names, want %d", n, files+2)
	}
}

func sortedNames(s []string) []string { slices.Sort(s); return s }

func TestReaddirErrors(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		f := c.file(c.root, "f", 0o644)
		res, _ := c.readdir(nfs3.ReaddirArgs{Dir: f, Count: 4096})
		c.want("READDIR of a file", res.Status, nfs3.ErrNotDir)
		first, _ := c.readdir(nfs3.ReaddirArgs{Dir: c.root, Count: 180})
		cookie := first.Entries[0].Cookie
		all, _ := c.readdir(nfs3.ReaddirArgs{Dir: c.root, Count: 4096})
		res, _ = c.readdir(nfs3.ReaddirArgs{Dir: c.root, Cookie: cookie, Count: 4096})
		c.want("READDIR without a verifier", res.Status, nfs3.OK)
		if got, want := len(res.Entries), len(all.Entries)-1; got != want {
			t.Errorf("READDIR without a verifier after the first entry: %d entries, want %d", got, want)
		}
		res, _ = c.readdir(nfs3.ReaddirArgs{Dir: c.root, Cookie: cookie, Verf: nfs3.Verf{7: 1}, Count: 4096})
		c.want("READDIR with another verifier", res.Status, nfs3.ErrBadCookie)
		for _, odd := range []uint64{1 << 63, 1<<64 - 1, 1<<63 - 1, 12345} {
			res, _ = c.readdir(nfs3.ReaddirArgs{Dir: c.root, Cookie: odd, Verf: first.Verf, Count: 4096})
			if possible := []nfs3.Status{nfs3.OK, nfs3.ErrBadCookie, nfs3.ErrInval}; !slices.Contains(possible, res.Status) {
				t.Errorf("READDIR at cookie %#x: %v, want one of %v", odd, res.Status, possible)
			}
		}
		if n := len(c.list(c.root, 4096)); n != 3 {
			t.Errorf("%d names after all", n)
		}
		c.want("chmod", c.setattr(c.root, nfs3.Sattr{SetMode: true, Mode: 0o744}).Status, nfs3.OK)
		u := h.dial(user)
		plus, _ := u.readdirplus(nfs3.ReaddirplusArgs{Dir: c.root, Dircount: 4096, Maxcount: 4096})
		c.want("READDIRPLUS of what one is not allowed to search", plus.Status, nfs3.OK)
		for _, e := range plus.Entries {
			if e.FH.Present || e.Attr.Present {
				t.Errorf("%q: shown to who is not allowed to search", e.Name)
			}
		}
		c.want("chmod", c.setattr(c.root, nfs3.Sattr{SetMode: true, Mode: 0o711}).Status, nfs3.OK)
		res, _ = u.readdir(nfs3.ReaddirArgs{Dir: c.root, Count: 4096})
		c.want("READDIR of what one is not allowed to read", res.Status, nfs3.ErrAcces)
	})
}

// TestHugeDirectory lists 100,000 names over RDMA, each once. On a disk it lists 10,000.
func TestHugeDirectory(t *testing.T) {
	for base, n := range map[string]int{os.TempDir(): 10000, "/dev/shm": 100000} {
		t.Run(base, func(t *testing.T) {
			dir, err := os.MkdirTemp(base, "nfsserver-test-")
			if err != nil {
				t.Skip(err)
			}
			defer os.RemoveAll(dir)
			for i := range n {
				if err := unix.Mknod(filepath.Join(dir, fmt.Sprintf("a-name-of-some-length-%06d", i)), unix.S_IFREG|0o600, 0); err != nil {
					t.Fatalf("unix.Mknod: %v", err)
				}
			}
			h := serve(t, nfsserver.Options{Exports: []nfsserver.Export{{Name: "/x", FS: diskAt(t, dir)}},
				Squash: nfsserver.Squash{All: true, UID: uint32(os.Geteuid())}})
			c := h.dialRDMA(root).mount("/x")
			for what, names := range map[string][]string{"READDIR": c.list(c.root, 32<<10), "READDIRPLUS": c.listPlus(c.root, 32<<10, 128<<10)} {
				if len(names) != n+2 || len(slices.Compact(sortedNames(names))) != n+2 {
					t.Errorf("%s: %d names, want %d, each once", what, len(names), n+2)
				}
			}
		})
	}
}
