// The data path does not allocate, at either end (the race detector makes pools drop items on
// purpose).

//go:build !race

package nfsclient_test

import (
	"context"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
)

func TestDataPathDoesNotAllocate(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background()) // programs use cancelable contexts too
	defer cancel()
	for _, row := range []struct {
		tr nfsclient.Transport
		fs string
	}{{nfsclient.RDMA, "memfs"}, {nfsclient.TCP, "memfs"}, {nfsclient.RDMA, "osfs"}, {nfsclient.TCP, "osfs"}} {
		tr := row.tr
		fsys := mountNew(t, tr, row.fs, nfsclient.Options{})
		f, err := fsys.Create(ctx, "f", 0o600)
		must.Succeed(t, err)
		big, small := make([]byte, 1<<20), make([]byte, 4096)
		_, err = f.WriteAt(big, 0)
		must.Succeed(t, err)
		other := f.Client().As(transport.SysCred())
		for name, do := range map[string]func() error{
			"GETATTR":                   func() error { _, err := f.Client().Getattr(ctx, f.FH()); return err },
			"GETATTR of another caller": func() error { _, err := other.Getattr(ctx, f.FH()); return err },
			"LOOKUP":                    func() error { _, err := f.Client().Lookup(ctx, fsys.Root(), "f"); return err },
			"READ 4K":                   func() error { _, err := f.ReadAt(small, 0); return err },
			"READ 1M":                   func() error { _, err := f.ReadAt(big, 0); return err },
			"WRITE 4K":                  func() error { _, err := f.WriteAt(small, 0); return err },
			"WRITE 1M":                  func() error { _, err := f.WriteAt(big, 0); return err },
		} {
			measure := func() float64 {
				return testing.AllocsPerRun(200, func() {
					if err := do(); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
				})
			}
			n := measure()
			// The server caches nothing about a file that has just changed, so LOOKUP takes the
			// slow path for some clock ticks.
			for try := 0; n >= 1 && name == "LOOKUP" && try < 100; try++ {
				time.Sleep(10 * time.Millisecond)
				n = measure()
			}
			if n >= 1 {
				t.Errorf("%s over %s, %s: %.1f allocations", name, tr, row.fs, n)
			}
		}
	}
}
