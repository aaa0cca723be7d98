// Every size at the edges of inline, chunk and segment, through READ and WRITE, content compared.

package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"golang.org/x/sync/errgroup"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A lane is one way from a client to a tree.
type lane struct {
	name string
	dir  bool // a directory, not memory
	opt  nfsclient.Options
	crc  rnic.CRCMode
}

// lanes returns a lane for each tree over RDMA with CRC, over RDMA without it, and over TCP; one
// tree also has a lane over RoCE.
func lanes() (l []lane) {
	for _, dir := range []bool{false, true} {
		tree := "memfs"
		if dir {
			tree = "osfs"
		}
		l = append(l,
			lane{tree + "/rdma", dir, nfsclient.Options{CRC: rnic.CRCOn}, rnic.CRCOn},
			lane{tree + "/rdma-nocrc", dir, nfsclient.Options{CRC: rnic.CRCOff}, rnic.CRCOff},
			lane{tree + "/tcp", dir, nfsclient.Options{Transport: nfsclient.TCP}, rnic.CRCOn},
		)
	}
	return append(l, lane{"memfs/roce", false, nfsclient.Options{Provider: nfsclient.RoCE}, rnic.CRCOn})
}

// device returns the client's RNIC.
func (l *lane) device() *rnic.Device {
	if l.opt.Provider == nfsclient.RoCE {
		return roce.Open(rnic.DeviceConfig{})
	}
	return iwarp.Open(rnic.DeviceConfig{CRC: l.crc})
}

func (l *lane) server(t *testing.T, cfg rig.Config) *rig.Server {
	t.Helper()
	rig.NoLeaks(t)
	if l.dir && cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.Device.CRC = l.crc
	if l.opt.Provider == nfsclient.RoCE {
		cfg.RoCE, cfg.Host = roce.Open(cfg.Device), machine.Addr(t).String()
	}
	return rig.Start(t, cfg)
}

// overLanes runs f on a separate server for each lane.
func overLanes(t *testing.T, f func(t *testing.T, l lane, s *rig.Server)) {
	for _, l := range lanes() {
		t.Run(l.name, func(t *testing.T) { f(t, l, l.server(t, rig.Config{})) })
	}
}

var bg = context.Background()

var sizes = []int{0, 1, 3, 4, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 1<<20 - 1, 1 << 20}

var offsets = []uint64{0, 1, 4095, 1<<20 + 3, 1<<33 + 7}

// randomBytes returns n pseudorandom bytes, determined by seed.
func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	rand.NewChaCha8(key).Read(b)
	return b
}

func create(f *nfsclient.FS, name string) (nfs3.FH, error) {
	n, err := f.Client().Create(bg, f.Root(), name, nfs3.Unchecked, nfs3.Sattr{}, nfs3.Verf{})
	return n.FH, err
}

// writeAll sends one WRITE, which must take all bytes.
func writeAll(c *nfsclient.Client, fh nfs3.FH, p []byte, off uint64) error {
	w, err := c.Write(bg, fh, p, off, nfs3.Unstable)
	if err == nil && w.N != len(p) {
		err = fmt.Errorf("WRITE took %d of %d bytes", w.N, len(p))
	}
	return err
}

// readAll sends one READ with room for more bytes. It must return the expected ones and the end of
// the file.
func readAll(c *nfsclient.Client, fh nfs3.FH, want []byte, off uint64, room int) error {
	got := bytes.Repeat([]byte{0xee}, room)
	n, eof, err := c.Read(bg, fh, got, off)
	switch {
	case err != nil:
		return err
	case n != len(want) || !bytes.Equal(got[:n], want):
		return fmt.Errorf("READ of %d at %d gave %d bytes, not the %d written", room, off, n, len(want))
	case !eof && n < room:
		return fmt.Errorf("READ of %d at %d gave %d bytes and no end", room, off, n)
	}
	for i, b := range got[n:] {
		if b != 0xee {
			return fmt.Errorf("READ changed byte %d behind the data", i)
		}
	}
	return nil
}

// roundTrip writes n bytes at off of a new file and reads them back, exactly,
// with room to spare, and the hole before them.
func roundTrip(f *nfsclient.FS, name string, n int, off uint64) error {
	fh, err := create(f, name)
	if err != nil {
		return err
	}
	c, data := f.Client(), randomBytes(uint64(n)<<8^off, n)
	if err := writeAll(c, fh, data, off); err != nil {
		return err
	}
	at, err := c.Getattr(bg, fh)
	if want := off + uint64(n); err != nil || n > 0 && at.Size != want || n == 0 && at.Size != 0 {
		return fmt.Errorf("size %d, want %d (%w)", at.Size, want, err)
	}
	hole := int(min(off, 33))
	if n == 0 {
		hole = 0
	}
	want := append(make([]byte, hole), data...)
	for _, room := range []int{len(want), len(want) + 5} {
		room = min(room, 1<<20)
		if err := readAll(c, fh, want[:min(room, len(want))], off-uint64(hole), room); err != nil {
			return err
		}
	}
	return readAll(c, fh, nil, off+uint64(n), 10)
}

func TestSizes(t *testing.T) {
	overLanes(t, func(t *testing.T, l lane, s *rig.Server) {
		for _, conns := range []int{1, 3} {
			opt := l.opt
			opt.Conns = conns
			f := s.Mount(t, opt)
			var g errgroup.Group
			g.SetLimit(8)
			for _, n := range sizes {
				for _, off := range offsets {
					g.Go(func() error {
						name := fmt.Sprintf("%d-%d-%d", conns, n, off)
						if err := roundTrip(f, name, n, off); err != nil {
							return fmt.Errorf("%d bytes at %d, %d connections: %w", n, off, conns, err)
						}
						return f.Client().Remove(bg, f.Root(), name)
					})
				}
			}
			if err := g.Wait(); err != nil {
				t.Errorf("g.Wait: %v", err)
			}
		}
	})
}

// TestAcross: one kind of client reads exactly the bytes that another writes.
func TestAcross(t *testing.T) {
	for _, l := range lanes() {
		if l.opt.Transport == nfsclient.TCP {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			s := l.server(t, rig.Config{})
			rdma, tcp := s.Mount(t, l.opt), s.Mount(t, nfsclient.Options{Transport: nfsclient.TCP})
			for _, way := range []struct{ from, to *nfsclient.FS }{{rdma, tcp}, {tcp, rdma}} {
				for _, n := range sizes {
					want := randomBytes(uint64(n)+5, n)
					if err := way.from.WriteFile(bg, "f", want, 0o644); err != nil {
						t.Fatalf("WriteFile: %v", err)
					}
					got, err := way.to.ReadFile(bg, "f")
					if err != nil || !bytes.Equal(got, want) {
						t.Errorf("%d bytes from %T: got %d, %v", n, way.from, len(got), err)
					}
				}
			}
		})
	}
}

// TestOverMax: a READ of more than rtmax is cut, and a WRITE of more than wtmax is not taken whole.
// Neither does harm.
func TestOverMax(t *testing.T) {
	overLanes(t, func(t *testing.T, l lane, s *rig.Server) {
		f := s.Mount(t, l.opt)
		fh, err := create(f, "big")
		if err != nil {
			t.Fatalf("create: %v", err)
		}
		data := randomBytes(3, 1<<20+4096)
		w, err := f.Client().Write(bg, fh, data, 0, nfs3.Unstable)
		if err != nil || w.N != 1<<20 {
			t.Errorf("WRITE took %d bytes, %v", w.N, err)
		}
		if err := writeAll(f.Client(), fh, data[w.N:], uint64(w.N)); err != nil {
			t.Errorf("writeAll: %v", err)
		}
		got := make([]byte, len(data))
		n, eof, err := f.Client().Read(bg, fh, got, 0)
		if err != nil || n != 1<<20 || eof || !bytes.Equal(got[:n], data[:n]) {
			t.Errorf("READ gave %d bytes, end %v, %v", n, eof, err)
		}
		if _, err := f.ReadFile(bg, "none"); !errors.Is(err, errNotExist) {
			t.Error(err)
		}
	})
}
