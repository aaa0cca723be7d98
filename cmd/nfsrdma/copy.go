// The copy engine: a tree to a tree, in parallel, bounded.
//
// A few walkers list directories and make them on the other side; they hand
// files to more workers over a channel that holds little, so a directory of any
// number of names costs bounded memory. Workers make no new work, so a full
// channel always drains. A directory counts what is left below it; the one who
// finishes its last child sets its mode and times, which nothing disturbs any more.

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"
	"sync/atomic"
)

// How much a copy does at once.
const (
	copyWalkers = 8       // directories being listed
	copyWorkers = 48      // files being copied
	blockSize   = 1 << 20 // octets of one piece of a large file
	blockWindow = 8       // pieces of one large file in flight
)

// A copier runs one copy. Counters may be read while it runs.
type copier struct {
	files, links, dirs atomic.Int64
	bytes, total       atomic.Int64 // octets copied; octets found so far

	warn func(format string, args ...any) // told of what is passed over

	blocks sync.Pool // *[]byte of blockSize

	mu    sync.Mutex // guards stack, busy, err
	cond  sync.Cond
	stack []*dirTask
	busy  int // walkers at work
	err   error

	stop context.CancelFunc
	work chan fileTask
}

// A dirTask is one directory to copy. pending counts its listing and its
// children; who brings it to zero finishes it.
type dirTask struct {
	parent   *dirTask
	m        meta
	rel      string // path below the top, for messages
	from, to dir
	pending  atomic.Int64
}

type fileTask struct {
	dir *dirTask
	m   meta
}

func newCopier(warn func(string, ...any)) *copier {
	c := &copier{warn: warn, work: make(chan fileTask, copyWorkers)}
	c.cond.L = &c.mu
	c.blocks.New = func() any { b := make([]byte, blockSize); return &b }
	return c
}

// tree copies the directory src, whose meta is m, to newName of to, whole. The
// first error ends it; what was copied so far stays. src is closed.
func (c *copier) tree(ctx context.Context, src, to dir, m meta, newName string) error {
	ctx, c.stop = context.WithCancel(ctx)
	defer c.stop()
	dst, err := to.mkdir(ctx, newName, m.mode|0o700)
	if err != nil {
		return errors.Join(err, src.close())
	}
	top := &dirTask{m: m, rel: newName, from: src, to: dst}
	top.pending.Store(1)
	c.dirs.Add(1)
	c.stack = append(c.stack, top)

	var walkers, workers sync.WaitGroup
	for range copyWorkers {
		workers.Go(func() { c.workLoop(ctx) })
	}
	for range copyWalkers {
		walkers.Go(func() { c.walkLoop(ctx) })
	}
	walkers.Wait()
	close(c.work)
	workers.Wait()
	return c.err
}

// fail keeps the first error and makes everyone stop.
func (c *copier) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	c.cond.Broadcast()
	c.stop()
}

// next gives a directory to list, or nil when the walk is over.
func (c *copier) next() *dirTask {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.stack) == 0 && c.busy > 0 && c.err == nil {
		c.cond.Wait()
	}
	if len(c.stack) == 0 || c.err != nil {
		c.cond.Broadcast()
		return nil
	}
	t := c.stack[len(c.stack)-1]
	c.stack = c.stack[:len(c.stack)-1]
	c.busy++
	return t
}

func (c *copier) walkLoop(ctx context.Context) {
	for t := c.next(); t != nil; t = c.next() {
		if err := c.list(ctx, t); err != nil {
			c.fail(fmt.Errorf("%s: %w", t.rel, err))
		}
		c.mu.Lock()
		c.busy--
		c.mu.Unlock()
		c.cond.Broadcast()
	}
}

// list opens a directory on both sides, unless it is the top, and gives out what is in it.
func (c *copier) list(ctx context.Context, t *dirTask) error {
	if t.from == nil {
		var err error
		if t.from, err = t.parent.from.sub(ctx, t.m); err != nil {
			return err
		}
		if t.to, err = t.parent.to.mkdir(ctx, t.m.name, t.m.mode|0o700); err != nil {
			return err
		}
		c.dirs.Add(1)
	}
	for m, err := range t.from.entries(ctx) {
		if err != nil {
			return err
		}
		if badName(m.name) {
			return fmt.Errorf("the listing holds the name %q", m.name)
		}
		if err := c.giveOut(ctx, t, m); err != nil {
			return err
		}
	}
	return c.finish(ctx, t)
}

func (c *copier) giveOut(ctx context.Context, t *dirTask, m meta) error {
	switch m.mode.Type() {
	case fs.ModeDir:
		t.pending.Add(1)
		c.mu.Lock()
		c.stack = append(c.stack, &dirTask{parent: t, m: m, rel: path.Join(t.rel, m.name)})
		c.stack[len(c.stack)-1].pending.Store(1)
		c.mu.Unlock()
		c.cond.Signal()
	case 0, fs.ModeSymlink:
		t.pending.Add(1)
		if m.mode.IsRegular() {
			c.total.Add(m.size)
		}
		select {
		case c.work <- fileTask{t, m}:
		case <-ctx.Done():
			return ctx.Err()
		}
	default:
		c.warn("%s: passed over, it is a %s", path.Join(t.rel, m.name), typeName(m.mode))
	}
	return nil
}

// finish counts one thing of t as done; the last one closes t and goes on with its parent.
func (c *copier) finish(ctx context.Context, t *dirTask) error {
	for ; t != nil && t.pending.Add(-1) == 0; t = t.parent {
		err := t.to.setMeta(ctx, t.m)
		if err = errors.Join(err, t.from.close(), t.to.close()); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) workLoop(ctx context.Context) {
	for f := range c.work {
		if ctx.Err() != nil {
			continue // let the walkers get rid of what they hold
		}
		err := c.one(ctx, f.dir.from, f.dir.to, f.m, f.m.name)
		if err == nil {
			err = c.finish(ctx, f.dir)
		}
		if err != nil {
			c.fail(fmt.Errorf("%s: %w", path.Join(f.dir.rel, f.m.name), err))
		}
	}
}
