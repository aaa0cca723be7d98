// READDIR and READDIRPLUS with no names up to 20,000, with replies in every form: each name once,
// none left out.

package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// dirSizes are the numbers of names in the directories; each directory is named by its number.
var dirSizes = []int{0, 1, 2, 3, 50, 1000, 20000}

// fileName returns name i of a directory: all lengths modulo four, some long.
func fileName(i int) string {
	return fmt.Sprintf("%d-%s", i, bytes.Repeat([]byte{'x'}, i%7*i%13))
}

// fill makes the directories, in a tree or in a directory of this machine.
func fill(t *testing.T, dir string) func(nfsserver.FS) {
	t.Helper()
	if dir == "" {
		return func(tree nfsserver.FS) {
			for _, n := range dirSizes {
				ref, _, err := tree.Mkdir(nfsserver.Self(), tree.Root(), strconv.Itoa(n), &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o777})
				for i := range n {
					if err == nil {
						_, _, err = tree.Create(nfsserver.Self(), ref, fileName(i), &nfsserver.SetAttr{})
					}
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, n := range dirSizes {
		d := filepath.Join(dir, strconv.Itoa(n))
		must.Succeed(t, os.Mkdir(d, 0o777))
		for i := range n {
			must.Succeed(t, os.WriteFile(filepath.Join(d, fileName(i)), nil, 0o600))
		}
	}
	return nil
}

// dial returns an RPC client, with which a test calls procedures directly.
func dial(t *testing.T, l *lane, s *rig.Server) *transport.Client {
	t.Helper()
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	var c *transport.Client
	var err error
	cfg := transport.ClientConfig{Cred: transport.SysCred()}
	if l.opt.Transport == nfsclient.TCP {
		c, err = transport.DialTCP(ctx, s.TCP, cfg)
	} else {
		c, err = transport.DialRDMA(ctx, l.device(), s.RDMA, cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A seen is the names of one listing.
type seen struct {
	names map[string]bool
	twice string
	eof   bool
	last  uint64
	verf  nfs3.Verf
}

func (l *seen) add(name []byte, cookie uint64) {
	if l.names[string(name)] {
		l.twice = string(name)
	}
	l.names[string(name)] = true
	l.last = cookie
}

// check wants fill's n names, and "." and "..".
func (l *seen) check(n int) error {
	if l.twice != "" || len(l.names) != n+2 || !l.names["."] || !l.names[".."] {
		return fmt.Errorf("%d names, want %d and . and ..; %q came twice", len(l.names), n, l.twice)
	}
	for i := range n {
		if !l.names[fileName(i)] {
			return fmt.Errorf("%q is missing", fileName(i))
		}
	}
	return nil
}

func proc(n uint32) *transport.Proc {
	b := &nfs3.Bindings[n]
	return &transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Proc: n, Name: b.Name, MaxReply: b.MaxReply}
}

var errNoProgress = errors.New("a page with no names that is not the last")

// readdir lists a directory by READDIR with this count.
func readdir(c *transport.Client, dir nfs3.FH, count uint32) (*seen, error) {
	l := &seen{names: map[string]bool{}}
	for !l.eof {
		before := len(l.names)
		args := nfs3.ReaddirArgs{Dir: dir, Cookie: l.last, Verf: l.verf, Count: count}
		res := nfs3.ReaddirRes{Each: func(e *nfs3.Entry) { l.add(e.Name, e.Cookie) }}
		if err := c.Call(bg, proc(nfs3.ProcReaddir), &args, &res, nil, int(count)); err != nil {
			return l, err
		}
		if res.Status != nfs3.OK {
			return l, res.Status
		}
		if l.eof, l.verf = res.EOF, res.Verf; !l.eof && len(l.names) == before {
			return l, errNoProgress
		}
	}
	return l, nil
}

// readdirplus lists by READDIRPLUS, and wants handle and attributes of each regular file.
func readdirplus(c *transport.Client, dir nfs3.FH, dircount, maxcount uint32) (*seen, error) {
	l := &seen{names: map[string]bool{}}
	bare := 0
	for !l.eof {
		before := len(l.names)
		args := nfs3.ReaddirplusArgs{Dir: dir, Cookie: l.last, Verf: l.verf, Dircount: dircount, Maxcount: maxcount}
		res := nfs3.ReaddirplusRes{Each: func(e *nfs3.EntryPlus) {
			l.add(e.Name, e.Cookie)
			if !e.Attr.Present || !e.FH.Present || e.Attr.Attr.Fileid != e.Fileid {
				bare++
			}
		}}
		if err := c.Call(bg, proc(nfs3.ProcReaddirplus), &args, &res, nil, int(maxcount)); err != nil {
			return l, err
		}
		if res.Status != nfs3.OK {
			return l, res.Status
		}
		if l.eof, l.verf = res.EOF, res.Verf; !l.eof && len(l.names) == before {
			return l, errNoProgress
		}
	}
	if bare > 2 { // "." and ".." may come without
		return l, fmt.Errorf("%d entries without handle or attributes", bare)
	}
	return l, nil
}

// pages are sizes of replies, in bytes: inline, just over the threshold, in a Reply chunk, and more
// than all names need.
var pages = []uint32{512, 3900, 4096, 32 << 10, 1 << 20}

func TestDirs(t *testing.T) {
	disk := t.TempDir()
	fill(t, disk)
	for _, l := range lanes() {
		t.Run(l.name, func(t *testing.T) {
			cfg := rig.Config{}
			if l.dir {
				cfg.Dir = disk
			} else {
				cfg.Export = fill(t, "")
			}
			s := l.server(t, cfg)
			f := s.Mount(t, l.opt)
			one, two := dial(t, &l, s), dial(t, &l, s)
			var g errgroup.Group
			g.SetLimit(4)
			for _, n := range dirSizes {
				if n > 1000 && !full && l.name != "memfs/rdma" && l.name != "osfs/tcp" {
					continue
				}
				node, err := f.Client().Lookup(bg, f.Root(), strconv.Itoa(n))
				if err != nil {
					t.Fatalf("Lookup: %v", err)
				}
				for _, page := range pages {
					if n > 1000 && !full && page < 256<<10 {
						continue
					}
					g.Go(func() error { return listBoth(one, two, node.FH, n, page) })
				}
				g.Go(func() error { return entries(f, n) })
			}
			if err := g.Wait(); err != nil {
				t.Errorf("g.Wait: %v", err)
			}
			tooSmall(t, one, f.Root())
		})
	}
}

// listBoth lists a directory by both procedures, each over a connection.
func listBoth(one, two *transport.Client, dir nfs3.FH, n int, page uint32) error {
	l, err := readdir(one, dir, page)
	if err == nil {
		err = l.check(n)
	}
	if err != nil {
		return fmt.Errorf("READDIR of %d names, count %d: %w", n, page, err)
	}
	for _, dircount := range []uint32{page / 4, page} {
		l, err := readdirplus(two, dir, dircount, page)
		if err == nil {
			err = l.check(n)
		}
		if err != nil {
			return fmt.Errorf("READDIRPLUS of %d names, dircount %d, maxcount %d: %w", n, dircount, page, err)
		}
	}
	return nil
}

// entries lists with the client library.
func entries(f *nfsclient.FS, n int) error {
	list, err := f.ReadDir(bg, strconv.Itoa(n))
	if err != nil || len(list) != n {
		return fmt.Errorf("%d entries, want %d (%w)", len(list), n, err)
	}
	return nil
}

// tooSmall wants NFS3ERR_TOOSMALL for counts in which no entry fits, and no empty page. It wants
// NFS3ERR_BAD_COOKIE for a cookie of another verifier.
func tooSmall(t *testing.T, c *transport.Client, dir nfs3.FH) {
	t.Helper()
	for _, count := range []uint32{0, 1, 16, 100, 107} {
		if _, err := readdir(c, dir, count); !errors.Is(err, nfs3.ErrTooSmall) {
			t.Errorf("READDIR of count %d: %v", count, err)
		}
		if _, err := readdirplus(c, dir, 1<<20, count); !errors.Is(err, nfs3.ErrTooSmall) {
			t.Errorf("READDIRPLUS of maxcount %d: %v", count, err)
		}
	}
	var args xdr.Marshaler = &nfs3.ReaddirArgs{Dir: dir, Cookie: 3, Verf: nfs3.Verf{1, 2, 3}, Count: 4096}
	var res nfs3.ReaddirRes
	if err := c.Call(bg, proc(nfs3.ProcReaddir), args, &res, nil, 4096); err != nil || res.Status != nfs3.ErrBadCookie {
		t.Errorf("a cookie of another verifier: %v, %v", res.Status, err)
	}
}
