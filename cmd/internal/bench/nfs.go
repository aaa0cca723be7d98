// bench's tests.

package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// test runs one test by name and adds its figures to the report.
func (b *run) test(ctx context.Context, name string) error {
	c, root := b.fsys.Client(), b.fsys.Root()
	l := loop{slots: b.slots, duration: b.opts.Duration}
	calls := context.WithoutCancel(ctx)
	switch name {
	case "null":
		l.slots = b.slots[:1]
		l.op = func(*slot, int64) (int, error) { return 0, c.Null(calls) }
	case "getattr":
		l.op = func(*slot, int64) (int, error) {
			_, err := c.Getattr(calls, root)
			return 0, err
		}
	case "readdirplus":
		dir, _, _, err := b.fsys.Parent(ctx, b.name)
		if err != nil {
			return err
		}
		l.op = lister(calls, dir, b.slots)
		return b.measure(ctx, name, &l)
	default:
		return b.fileTest(ctx, name, &l)
	}
	return b.measure(ctx, name, &l)
}

// listPage is a READDIRPLUS reply's size limit, in bytes.
const listPage = 1 << 20

// lister makes each slot list the directory independently, one page per call, and start again after
// the last page. A call's result is its entry count.
func lister(ctx context.Context, dir *nfsclient.FS, slots []*slot) op {
	c, root := dir.Client(), dir.Root()
	for _, s := range slots {
		s.page, s.entries = nfsclient.DirPage{}, 0
		s.count = func(*nfs3.EntryPlus) { s.entries++ }
	}
	return func(s *slot, _ int64) (int, error) {
		before := s.entries
		page, err := c.Readdirplus(ctx, root, s.page, listPage, listPage, s.count)
		if err != nil {
			return 0, err
		}
		if s.page = page; page.EOF {
			s.page = nfsclient.DirPage{}
		}
		return s.entries - before, nil
	}
}

// maxWarmUp limits a short loop's warm-up.
const maxWarmUp = 250 * time.Millisecond

// warmUp returns the warm-up time for a loop that lasts duration.
func warmUp(duration time.Duration) time.Duration {
	return max(duration/10, min(duration/2, maxWarmUp))
}

// measure warms up, to bring connections to speed and fill pools, then runs the loop.
func (b *run) measure(ctx context.Context, name string, l *loop) error {
	warm := *l
	warm.duration, warm.end = warmUp(l.duration), nil
	if _, err := warm.run(ctx); err != nil {
		return err
	}
	cpu := cpuMeter(b.opts.ServerPID)
	m, err := l.run(ctx)
	if err == nil {
		m.cpu = cpu()
		b.report.add(name, m, len(l.slots))
	}
	return err
}

// fileTest runs a test on the file. Writers rewrite the existing content, so the whole file can be
// verified after each test.
func (b *run) fileTest(ctx context.Context, name string, l *loop) error {
	f, err := b.layOut(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	block := int(b.opts.Block)
	blocks, small := b.opts.Size/b.opts.Block, b.opts.Size/randBlock
	read := func(s *slot, n int, off int64) (int, error) {
		if _, err := f.ReadAt(s.in[:n], off); err != nil {
			return 0, err
		}
		return n, b.pat.sample(s.in[:n], off)
	}
	write := func(s *slot, n int, off int64) (int, error) {
		b.pat.restamp(s.out[:n], off)
		return f.WriteAt(s.out[:n], off)
	}
	switch name {
	case "lookup":
		if err := b.lookups(ctx, l); err != nil {
			return err
		}
	case "read":
		l.op = func(s *slot, i int64) (int, error) { return read(s, block, i%blocks*b.opts.Block) }
	case "write":
		l.op = func(s *slot, i int64) (int, error) { return write(s, block, i%blocks*b.opts.Block) }
		l.end = f.Sync
	case "randread":
		l.op = func(s *slot, _ int64) (int, error) { return read(s, randBlock, s.random(small)*randBlock) }
	case "randwrite":
		l.op = func(s *slot, _ int64) (int, error) { return write(s, randBlock, s.random(small)*randBlock) }
		l.end = f.Sync
	}
	if err := b.measure(ctx, name, l); err != nil {
		return err
	}
	if l.end != nil {
		return b.verify(ctx, f)
	}
	return nil
}

// lookups makes l look up the file in its directory.
func (b *run) lookups(ctx context.Context, l *loop) error {
	dir, base, _, err := b.fsys.Parent(ctx, b.name)
	if err != nil {
		return err
	}
	c, calls := dir.Client(), context.WithoutCancel(ctx)
	l.op = func(*slot, int64) (int, error) {
		_, err := c.Lookup(calls, dir.Root(), base)
		return 0, err
	}
	return nil
}

// layOut opens the file. The first time it writes the file and verifies every byte.
func (b *run) layOut(ctx context.Context) (*nfsclient.File, error) {
	calls := context.WithoutCancel(ctx)
	if _, err := b.fsys.Stat(ctx, b.name); err == nil {
		return b.fsys.OpenFile(calls, b.name, os.O_RDWR, 0)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := b.fsys.Create(calls, b.name, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot create the file to measure with: %w", err)
	}
	l := loop{slots: b.slots, count: b.opts.Size / seqBlock, end: f.Sync}
	l.op = func(s *slot, i int64) (int, error) {
		b.pat.restamp(s.out, i*seqBlock)
		return f.WriteAt(s.out, i*seqBlock)
	}
	if _, err := l.run(ctx); err != nil {
		return nil, fmt.Errorf("lay out the file: %w", err)
	}
	return f, b.verify(ctx, f)
}

// verify compares every byte of the file, with no clock running.
func (b *run) verify(ctx context.Context, f *nfsclient.File) error {
	l := loop{slots: b.slots, count: b.opts.Size / seqBlock}
	l.op = func(s *slot, i int64) (int, error) {
		if _, err := f.ReadAt(s.in, i*seqBlock); err != nil {
			return 0, err
		}
		return seqBlock, b.pat.check(s.in, i*seqBlock)
	}
	if _, err := l.run(ctx); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	b.report.Verified += b.opts.Size
	return nil
}

// cleanUpTime limits the file's removal. Tests set a longer limit for busy machines.
var cleanUpTime = 10 * time.Second

// cleanUp removes the file, also after an interrupted run.
func (b *run) cleanUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTime)
	defer cancel()
	err := b.fsys.Remove(ctx, b.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
