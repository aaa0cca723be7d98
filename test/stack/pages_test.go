// READs with replies that wait for their client: the bytes are the file's, whatever happens to it
// meanwhile.

package stack

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A countedRead is a READ. count is the number by which it should increase the counter.
type countedRead struct {
	off   int64
	n     int
	count int64
}

// wantReads checks that each READ returns content's bytes, and increases counter by its count.
func wantReads(t *testing.T, g *nfsclient.File, content []byte, counter *atomic.Int64, reads []countedRead) {
	t.Helper()
	for _, r := range reads {
		// Try again if there were fewer. For a range that begins inside a large folio, cachestat(2)
		// counts too few pages in one of some 5,000 calls.
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

// A pausedConn is a connection from which nothing is read while it is paused.
type pausedConn struct {
	net.Conn
	pause *atomic.Pointer[chan struct{}]
}

func (c pausedConn) Read(b []byte) (int, error) {
	if wait := c.pause.Load(); wait != nil {
		<-*wait
	}
	return c.Conn.Read(b)
}

// A readCounter counts READs that were answered.
type readCounter struct{ n atomic.Int64 }

func (*readCounter) Connection(bool, int) {}

func (r *readCounter) Call(s transport.CallStats) {
	if s.Program.Number == nfs3.Program && s.Number == nfs3.ProcRead {
		r.n.Add(1)
	}
}

// TestFileCutWhileRepliesWait: a file is cut to whole pages, and to part of one, while replies with
// all its bytes wait for a slow client. No reply has a byte that the file never had.
func TestFileCutWhileRepliesWait(t *testing.T) {
	rig.NoLeaks(t)
	dir := t.TempDir()
	answered := new(readCounter)
	s := rig.Start(t, rig.Config{Dir: dir, Device: rnic.DeviceConfig{CRC: rnic.CRCAuto}, Server: transport.ServerConfig{Observer: answered}})
	const size, reads = 1 << 20, 12
	content := bytes.Repeat([]byte{0xa5}, size)
	for way, opt := range map[string]nfsclient.Options{
		"tcp":          {Transport: nfsclient.TCP},
		"rdma, CRC":    {CRC: rnic.CRCOn},
		"rdma, no CRC": {CRC: rnic.CRCOff},
	} {
		t.Run(way, func(t *testing.T) {
			var pause atomic.Pointer[chan struct{}]
			dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, addr)
				return pausedConn{c, &pause}, err
			}
			opt.Dial, opt.Conns = dial, 1
			if opt.Transport != nfsclient.TCP {
				opt.Device = iwarp.Open(rnic.DeviceConfig{CRC: opt.CRC, Dial: dial})
			}
			fsys := s.Mount(t, opt)
			for _, left := range []int64{0, 5 * 4096, 512<<10 + 1} {
				name := filepath.Join(dir, "f")
				must.Succeed(t, os.WriteFile(name, content, 0o644))
				f, err := fsys.Open(t.Context(), "f")
				if err != nil {
					t.Fatalf("Open: %v", err)
				}
				before, wait := answered.n.Load(), make(chan struct{})
				pause.Store(&wait)
				var readers sync.WaitGroup
				for range reads {
					readers.Go(func() {
						got := make([]byte, size)
						n, err := f.ReadAt(got, 0)
						if err != nil && err != io.EOF {
							t.Errorf("cut to %d: %v", left, err)
						}
						if i := bytes.IndexByte(got[:n], 0); i >= 0 {
							t.Errorf("cut to %d: %d bytes, and from byte %d on zeros that the file never had", left, n, i)
						}
					})
				}
				eventually(t, "all READs being answered", func() error {
					if n := answered.n.Load() - before; n < reads {
						return io.ErrNoProgress
					}
					return nil
				})
				must.Succeed(t, os.Truncate(name, left))
				pause.Store(nil)
				close(wait)
				readers.Wait()
				f.Close()
			}
		})
	}
}
