//go:build !race

// The steady state allocates nothing (the race detector makes pools drop items on purpose).

package datapath

import (
	"context"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A null is a server that answers at once and does nothing.
type null struct{}

func (null) Read(_ context.Context, _ nfs3.FH, _ Cred, p []byte, _ uint64) (int, bool, error) {
	return len(p), false, nil
}

func (null) Write(_ context.Context, _ nfs3.FH, _ Cred, p []byte, _ uint64, how nfs3.StableHow) (int, nfs3.StableHow, nfs3.Verf, error) {
	return len(p), how, nfs3.Verf{}, nil
}

func (null) Commit(context.Context, nfs3.FH, Cred) (nfs3.Verf, error) { return nfs3.Verf{}, nil }

// steady has the steps of long-running use; each step has an offset.
var steady = map[string]struct {
	size int
	step func(h *Handle, p []byte, off int64) error
}{
	"write 1 MiB":   {1 << 20, writeStep},
	"write 128 KiB": {128 << 10, writeStep},
	"write 4 KiB":   {4 << 10, writeStep},
	"view 1 MiB": {1 << 20, func(h *Handle, p []byte, off int64) error {
		v, err := h.View(bg, nil, p, off)
		v.Release()
		return err
	}},
	"read 128 KiB":        {128 << 10, readStep},
	"read 4 KiB":          {4 << 10, readStep},
	"read 4 KiB directly": {4 << 10, func(h *Handle, p []byte, off int64) error { _, _, err := h.ReadDirect(bg, nil, p, off); return err }},
}

func writeStep(h *Handle, p []byte, off int64) error {
	_, err := h.Write(bg, nil, p, off, nfs3.Unstable)
	return err
}

func readStep(h *Handle, p []byte, off int64) error {
	_, _, err := h.Read(bg, nil, p, off)
	return err
}

// bench returns a function that runs the next step, on an endless file.
func bench(tb testing.TB, size int, step func(h *Handle, p []byte, off int64) error) func() {
	e := New(Config{DirtyFile: 16 << 20}, null{})
	f := e.File(handleOf(1))
	h := f.Open()
	f.SetSize(1 << 50)
	tb.Cleanup(func() {
		f.Discard()
		_ = h.Close()
		f.Release()
		_ = e.Close(bg)
	})
	p, off := make([]byte, size), int64(0)
	return func() {
		if err := step(h, p, off); err != nil {
			tb.Fatalf("step: %v", err)
		}
		off += int64(size)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	for name, c := range steady {
		next := bench(t, c.size, c.step)
		steps := max(200, 256<<20/c.size/8)
		for range steps { // fills the pools
			next()
		}
		if n := testing.AllocsPerRun(steps, next); n != 0 {
			t.Errorf("%s: %v allocations for each", name, n)
		}
	}
}

func BenchmarkSteadyState(b *testing.B) {
	for name, c := range steady {
		b.Run(name, func(b *testing.B) {
			next := bench(b, c.size, c.step)
			b.SetBytes(int64(c.size))
			b.ReportAllocs()
			for b.Loop() {
				next()
			}
		})
	}
}
