// Benchmarks of single calls, with the allocations of client and server.

package nfsclient_test

import (
	"context"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

func benchFile(b *testing.B, tr nfsclient.Transport) *nfsclient.File {
	fsys := mountNew(b, tr, "memfs", nfsclient.Options{})
	f, err := fsys.Create(context.Background(), "f", 0o600)
	if err != nil {
		b.Fatalf("create: %v", err)
	}
	if _, err := f.WriteAt(make([]byte, 1<<20), 0); err != nil {
		b.Fatalf("write at: %v", err)
	}
	return f
}

func BenchmarkCalls(b *testing.B) {
	for _, tr := range []nfsclient.Transport{nfsclient.RDMA, nfsclient.TCP} {
		f := benchFile(b, tr)
		big, small := make([]byte, 1<<20), make([]byte, 4096)
		c, fh := f.Client(), f.FH()
		for _, x := range []struct {
			name string
			n    int
			do   func() error
		}{
			{"NULL", 0, func() error { return c.Null(context.Background()) }},
			{"GETATTR", 0, func() error { _, err := c.Getattr(context.Background(), fh); return err }},
			{"READ4K", 4096, func() error { _, err := f.ReadAt(small, 8192); return err }},
			{"READ1M", 1 << 20, func() error { _, err := f.ReadAt(big, 0); return err }},
			{"WRITE4K", 4096, func() error { _, err := f.WriteAt(small, 8192); return err }},
			{"WRITE1M", 1 << 20, func() error { _, err := f.WriteAt(big, 0); return err }},
		} {
			b.Run(tr.String()+"/"+x.name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(x.n))
				for b.Loop() {
					if err := x.do(); err != nil {
						b.Fatalf("%s: %v", x.name, err)
					}
				}
			})
		}
	}
}
