// READs that leave from the page cache: the same bytes as by a copy, whatever becomes of the file or the reader.

package stack

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
)

// watchedFS counts READs by pages and by copies, and does something between a READ and its reply.
type watchedFS struct {
	nfsserver.FS
	pages, copies atomic.Int64
	refuse        atomic.Bool // pages, after some have been given
	after         atomic.Pointer[func()]
}

func (w *watchedFS) ReadPages(c nfsserver.Cred, r nfsserver.Ref, p *mem.Pipe, n int, off uint64) (int, error) {
	got, err := w.FS.(nfsserver.PageReader).ReadPages(c, r, p, n, off)
	w.pages.Add(1)
	if f := w.after.Load(); f != nil {
		(*f)()
	}
	if w.refuse.Load() {
		return 0, errors.ErrUnsupported
	}
	return got, err
}

func (w *watchedFS) ReadAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	w.copies.Add(1)
	return w.FS.ReadAt(c, r, p, off)
}

// servePages serves dir; without a file system that gives pages the test is skipped.
func servePages(t *testing.T, dir string) (*rig.Server, *watchedFS) {
	t.Helper()
	var w *watchedFS
	s := rig.Start(t, rig.Config{Dir: dir, Device: rnic.DeviceConfig{CRC: rnic.CRCAuto}, Wrap: func(fs nfsserver.FS) nfsserver.FS {
		w = &watchedFS{FS: fs}
		return w
	}})
	if !w.FS.Info().Quick {
		machine.Skip(t, "the temporary directory is on no file system of this machine's own: pages are not tested")
	}
	return s, w
}

// byPages are the ways on which data leaves the server from pages of the file.
var byPages = map[string]nfsclient.Options{
	"tcp":          {Transport: nfsclient.TCP},
	"rdma, CRC":    {CRC: rnic.CRCOn},
	"rdma, no CRC": {CRC: rnic.CRCOff},
}

// A countedRead is a READ of which count are expected to take the way that is counted.
type countedRead struct {
	off   int64
	n     int
	count int64
}

// wantReads has each READ give what content has there, and take the way that counter counts or not.
func wantReads(t *testing.T, g *nfsclient.File, content []byte, counter *atomic.Int64, reads []countedRead) {
	t.Helper()
	for _, r := range reads {
		// Once more where there were fewer: of a range that begins inside of a large folio, cachestat(2) counts too few pages in one of some
		// 5,000 calls.
		for try := range 5 {
			before, want := counter.Load(), content[r.off:min(int64(len(content)), r.off+int64(r.n))]
			got := make([]byte, r.n)
			n, err := g.ReadAt(got, r.off)
			if (err != nil) != (len(want) < r.n) || !bytes.Equal(got[:n], want) {
				t.Errorf("%d bytes at %d: %d, %v, the same bytes: %v", r.n, r.off, n, err, bytes.Equal(got[:n], want))
			}
			k := counter.Load() - before
			if k == r.count {
				break
			}
			if k > r.count || try == 4 {
				t.Errorf("%d bytes at %d: %d READs the way that is counted, want %d", r.n, r.off, k, r.count)
				break
			}
		}
	}
}

// TestReadsByPagesAreTheFile: aligned or not, with holes, up to the end and past it; READs of little are by a copy.
func TestReadsByPagesAreTheFile(t *testing.T) {
	rig.NoLeaks(t)
	dir := t.TempDir()
	s, w := servePages(t, dir)
	content := make([]byte, 3<<20+777)
	rand.NewChaCha8([32]byte{1}).Read(content)
	clear(content[1<<20+5 : 2<<20+9])
	name := filepath.Join(dir, "f")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err1 := f.WriteAt(content[:1<<20+5], 0) // what is between is a hole
	_, err2 := f.WriteAt(content[2<<20+9:], 2<<20+9)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	reads := []countedRead{{0, 1 << 20, 1}, {1 << 20, 1 << 20, 1}, {2 << 20, 1 << 20, 1}, {4096, 32 << 10, 1}, {777, 512 << 10, 1}, {1<<20 - 3, 100001, 1},
		{3, 1 << 20, 0}, {0, 31 << 10, 0}, {3 << 20, 1 << 20, 0}, {int64(len(content)) - 70000, 1 << 20, 1}}
	for way, opt := range byPages {
		t.Run(way, func(t *testing.T) {
			fsys := s.Mount(t, opt)
			g, err := fsys.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			wantReads(t, g, content, &w.pages, reads)
			w.refuse.Store(true)
			got := make([]byte, 1<<20)
			if _, err := g.ReadAt(got, 0); err != nil || !bytes.Equal(got, content[:1<<20]) {
				t.Errorf("a file system that refuses in the middle: %v, the same bytes: %v", err, bytes.Equal(got, content[:1<<20]))
			}
			w.refuse.Store(false)
		})
	}
}

// TestFileCutBeforeItsPagesAreSent: the reply has as many bytes as it says, each of them the file's
// old one or the zero of one that is cut off, and the connection goes on.
func TestFileCutBeforeItsPagesAreSent(t *testing.T) {
	rig.NoLeaks(t)
	dir := t.TempDir()
	s, w := servePages(t, dir)
	name := filepath.Join(dir, "f")
	content := bytes.Repeat([]byte{0xa5}, 1<<20)
	for way, opt := range byPages {
		t.Run(way, func(t *testing.T) {
			fsys := s.Mount(t, opt)
			for _, size := range []int64{0, 5000, 512<<10 + 1} {
				if err := os.WriteFile(name, content, 0o644); err != nil {
					t.Fatal(err)
				}
				g, err := fsys.Open(t.Context(), "f")
				if err != nil {
					t.Fatal(err)
				}
				cut := func() { os.Truncate(name, size) }
				w.after.Store(&cut)
				got := make([]byte, len(content))
				n, err := g.ReadAt(got, 0)
				w.after.Store(nil)
				if n != len(got) || err != nil {
					t.Errorf("cut to %d: %d bytes, %v", size, n, err)
				}
				if !bytes.Equal(got[:size], content[:size]) || bytes.IndexFunc(got[size:], func(r rune) bool { return r != 0 && r != 0xfffd }) >= 0 {
					t.Errorf("cut to %d: bytes that were never in the file", size)
				}
				g.Close()
				if b, err := fsys.ReadFile(context.Background(), "f"); err != nil || !bytes.Equal(b, content[:size]) {
					t.Errorf("cut to %d, read again: %d bytes, %v", size, len(b), err)
				}
			}
		})
	}
}

// stallConn is a connection from which nothing is read once stall is closed.
type stallConn struct {
	net.Conn
	stall, closed chan struct{}
	once          *sync.Once
}

func (c stallConn) Read(b []byte) (int, error) {
	select {
	case <-c.stall:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return c.Conn.Read(b)
	}
}

func (c stallConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// TestReadersWhoNeverRead: they hold no more pipes than there may be, others are served meanwhile, by
// copies where there is no pipe left, and all is given back when they are gone.
func TestReadersWhoNeverRead(t *testing.T) {
	rig.NoLeaks(t)
	dir := t.TempDir()
	s, w := servePages(t, dir)
	content := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{2}).Read(content)
	if err := os.WriteFile(filepath.Join(dir, "f"), content, 0o644); err != nil {
		t.Fatal(err)
	}
	for way, opt := range byPages {
		t.Run(way, func(t *testing.T) {
			stall := make(chan struct{})
			dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, addr)
				return stallConn{c, stall, make(chan struct{}), new(sync.Once)}, err
			}
			stalled := opt
			stalled.Dial, stalled.Conns = dial, 1
			if opt.Transport != nfsclient.TCP {
				stalled.Device = iwarp.Open(rnic.DeviceConfig{CRC: opt.CRC, Dial: dial})
			}
			const readers, each = 3, 24
			var files []*nfsclient.File
			for range readers {
				f, err := s.Mount(t, stalled).Open(t.Context(), "f")
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, f)
			}
			good := s.Mount(t, opt)
			before, base := w.pages.Load()+w.copies.Load(), rig.Descriptors()
			close(stall)
			for _, f := range files {
				for i := range each {
					// It ends, with an error, when the test does: the client is closed.
					go f.ReadAt(make([]byte, 1<<20), int64(i%8)<<20)
				}
			}
			eventually(t, "the server having READs that nobody takes", func() error {
				if w.pages.Load()+w.copies.Load()-before < readers*12 {
					return errors.New("it has not yet")
				}
				return nil
			})
			if b, err := good.ReadFile(context.Background(), "f"); err != nil || !bytes.Equal(b, content) {
				t.Errorf("another reader meanwhile: %d bytes, %v", len(b), err)
			}
			if n := rig.Descriptors() - base; n > 2*64+16 {
				t.Errorf("%d descriptors are open", n)
			}
		})
	}
}
