// A mount's data throughput, compared with the client library and with FUSE alone.

package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A benchFile is a file in the client library, or in a mount.
type benchFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
}

// A route is one route to a file's bytes.
type route struct {
	open  func(flags int) (benchFile, error)
	depth int                             // number of sequential reads and writes in flight
	check func(p []byte, off int64) error // checks the bytes read
	into  func(*DataRow) *Figure          // selects the figure to fill
}

// routes returns a round's routes, in order.
func (b *mountRun) routes(ctx context.Context) []route {
	calls := context.WithoutCancel(ctx)
	library := func(flags int) (benchFile, error) { return b.fsys.OpenFile(calls, b.name, flags&^unix.O_DIRECT, 0) }
	mounted := func(name string) func(int) (benchFile, error) {
		return func(flags int) (benchFile, error) { return openUncached(name, flags) }
	}
	return []route{
		{library, b.opts.Depth, b.pat.sample, func(r *DataRow) *Figure { return &r.Library }},
		{mounted(filepath.Join(b.mountPoint(MountNull), "data")), 1, touch, func(r *DataRow) *Figure { return &r.Null }},
		{mounted(filepath.Join(b.workDir(MountOurs), "data")), 1, b.pat.sample, func(r *DataRow) *Figure { return &r.Mount }},
	}
}

// openUncached opens a file and drops its pages from the kernel's cache.
func openUncached(name string, flags int) (benchFile, error) {
	f, err := os.OpenFile(name, flags, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// touched keeps the compiler from removing touch's work.
var touched atomic.Uint64

// touch reads the same bytes as sample and accepts all of them.
func touch(p []byte, _ int64) error {
	var sum uint64
	for i := 0; i < len(p); i += patternBlock {
		sum += uint64(p[i])
	}
	touched.Add(sum)
	return nil
}

// A dataTest measures one route and returns the route's figure.
type dataTest struct {
	row *DataRow
	do  func(context.Context, route) (float64, error)
}

// data measures reads and writes in rounds, and verifies every byte afterwards.
func (b *mountRun) data(ctx context.Context) error {
	f, err := b.layOut(ctx)
	if f != nil {
		defer f.Close()
	}
	if err != nil {
		return err
	}
	for _, mount := range []string{MountNull, MountOurs} {
		if err := b.mount(ctx, mount); err != nil {
			return err
		}
	}
	tests := []dataTest{
		{&DataRow{Name: "READ 1 MiB in order", Unit: "MiB/s"}, b.readInOrder},
		{&DataRow{Name: "WRITE 1 MiB in order, fsync", Unit: "MiB/s"}, b.writeInOrder},
		{&DataRow{Name: fmt.Sprintf("READ 4 KiB anywhere, O_DIRECT, depth %d", randDepth), Unit: "calls/s"}, b.readAnywhere},
	}
	for range b.opts.Rounds {
		for _, t := range tests {
			for _, w := range b.routes(ctx) {
				figure, err := t.do(ctx, w)
				if err != nil {
					return fmt.Errorf("%s: %w", t.row.Name, err)
				}
				w.into(t.row).add(figure)
			}
		}
	}
	for _, t := range tests {
		t.row.compare()
		b.report.Data = append(b.report.Data, t.row)
	}
	if err := b.verify(ctx, f); err != nil {
		return err
	}
	return b.reread(ctx)
}

// readInOrder reads the whole file once.
func (b *mountRun) readInOrder(ctx context.Context, w route) (float64, error) {
	f, err := w.open(os.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return b.readAll(ctx, f, w)
}

// readAll reads the file once, and returns the rate in MiB/s.
func (b *mountRun) readAll(ctx context.Context, f benchFile, w route) (float64, error) {
	l := loop{slots: b.slots[:w.depth], count: b.opts.Size / seqBlock}
	l.op = func(s *slot, i int64) (int, error) {
		if _, err := f.ReadAt(s.in, i*seqBlock); err != nil {
			return 0, err
		}
		return seqBlock, w.check(s.in, i*seqBlock)
	}
	m, err := l.run(ctx)
	return mibs(m), err
}

// mibs returns a loop's throughput in MiB/s.
func mibs(m *measured) float64 { return float64(m.bytes) / (1 << 20) / m.elapsed.Seconds() }

// writeInOrder rewrites the whole file and syncs it.
func (b *mountRun) writeInOrder(ctx context.Context, w route) (float64, error) {
	f, err := w.open(os.O_RDWR)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	l := loop{slots: b.slots[:w.depth], count: b.opts.Size / seqBlock, end: f.Sync}
	l.op = func(s *slot, i int64) (int, error) {
		b.pat.restamp(s.out, i*seqBlock)
		return f.WriteAt(s.out, i*seqBlock)
	}
	m, err := l.run(ctx)
	return mibs(m), err
}

// readAnywhere reads small random blocks, randDepth at once, bypassing the kernel's cache.
func (b *mountRun) readAnywhere(ctx context.Context, w route) (float64, error) {
	f, err := w.open(os.O_RDONLY | unix.O_DIRECT)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	l := loop{slots: b.slots[:randDepth], duration: b.opts.Duration}
	l.op = func(s *slot, _ int64) (int, error) {
		p, off := s.in[:randBlock], s.random(b.opts.Size/randBlock)*randBlock
		if _, err := f.ReadAt(p, off); err != nil {
			return 0, err
		}
		return randBlock, w.check(p, off)
	}
	m, err := l.run(ctx)
	return float64(m.h.N) / m.elapsed.Seconds(), err
}

// reread reads a file from the kernel's cache, compared with a file in tmpfs.
func (b *mountRun) reread(ctx context.Context) error {
	row := &PairRow{Name: "read again, from the cache", Unit: "MiB/s", Beside: "a file in tmpfs"}
	local := filepath.Join(b.rig.Scratch, "again")
	defer os.Remove(local)
	if err := b.copyHere(ctx, local); err != nil {
		return err
	}
	warm := route{depth: 1, check: b.pat.sample}
	for range b.opts.Rounds {
		for name, into := range map[string]*Figure{local: &row.Other, filepath.Join(b.workDir(MountOurs), "data"): &row.Mount} {
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			// The first pass fills the cache; the second reads from it.
			if _, err = b.readAll(ctx, f, warm); err == nil {
				var figure float64
				figure, err = b.readAll(ctx, f, warm)
				into.add(figure)
			}
			f.Close()
			if err != nil {
				return fmt.Errorf("%s: %w", row.Name, err)
			}
		}
	}
	row.compare()
	b.report.Pairs = append(b.report.Pairs, row)
	return nil
}

// copyHere copies the file's content to a local file.
func (b *mountRun) copyHere(ctx context.Context, name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	l := loop{slots: b.slots[:1], count: b.opts.Size / seqBlock}
	l.op = func(s *slot, i int64) (int, error) {
		b.pat.restamp(s.out, i*seqBlock)
		return f.WriteAt(s.out, i*seqBlock)
	}
	_, err = l.run(ctx)
	return err
}
