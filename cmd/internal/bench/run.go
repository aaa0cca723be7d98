// A measurement of one server: its options, and the order of its tests.

// Package bench measures: an NFS server, the verbs alone, and beside both, in the
// same run, what raw TCP does on this machine.
package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// Tests is the tests of a run that names none, in the order they run.
var Tests = []string{"null", "getattr", "lookup", "write", "read", "randread", "randwrite"}

// AllTests adds those that depend on what the directory holds.
var AllTests = append(slices.Clone(Tests), "readdirplus")

// maxDepth bounds the calls in flight: each has 2 MiB of buffers here.
const maxDepth = 1024

// Options say what to measure.
type Options struct {
	Depth    int           // calls in flight, 1..maxDepth; NULL is always one at a time
	Size     int64         // bytes of the file, rounded down to MiB, at least one
	Block    int64         // bytes of a sequential READ or WRITE; 0: 1 MiB; a power of two, 4 KiB..1 MiB
	Duration time.Duration // of each test
	Tests    []string      // those to run, of AllTests
	NoRaw    bool          // leave the yardstick of raw TCP out
	RawPeer  string        // address of a RawPeer at the server; empty: a process on loopback

	// ServerPID is a process of this machine whose CPU time is counted as the
	// server's; 0: it is not known.
	ServerPID int
}

// Check reports what is wrong with the options, by the flags that set them.
func (o *Options) Check() error {
	if o.Depth < 1 || o.Depth > maxDepth {
		return fmt.Errorf("--depth %d is not in 1..%d", o.Depth, maxDepth)
	}
	if o.Block == 0 {
		o.Block = seqBlock
	}
	if b := o.Block; b < patternBlock || b > seqBlock || b&(b-1) != 0 {
		return fmt.Errorf("--block %d is not a power of two in %d..%d", b, patternBlock, seqBlock)
	}
	for _, t := range o.Tests {
		if !slices.Contains(AllTests, t) {
			return fmt.Errorf("--tests %s: there are %s", t, strings.Join(AllTests, ", "))
		}
	}
	return nil
}

// A run is one measurement. It belongs to the goroutine that runs it; only
// while a loop runs do others use slots, one each.
type run struct {
	fsys   *nfsclient.FS
	name   string // of the file, below the root of fsys; its directory is what is listed
	opts   Options
	pat    *pattern
	slots  []*slot
	report *Report
}

// Server runs the tests of o with the file name below the root of fsys, which
// it makes and removes, and adds what it finds to r. Raw TCP is measured before
// and after them, so that a machine that slows down does not make a figure look
// better or worse.
func Server(ctx context.Context, fsys *nfsclient.FS, name string, o Options, r *Report) error {
	if err := o.Check(); err != nil {
		return err
	}
	o.Size = max(o.Size/seqBlock, 1) * seqBlock
	b := &run{fsys: fsys, name: name, opts: o, pat: newPattern(uint64(time.Now().UnixNano())), report: r}
	r.Depth, r.Size, r.Block = o.Depth, o.Size, o.Block
	defer endLate(ctx, fsys.Client())()
	for range o.Depth {
		b.slots = append(b.slots, newSlot(b.pat))
	}
	if o.NoRaw {
		return b.run(ctx)
	}
	raw, err := b.rawPlan().around(ctx, func() error { return b.run(ctx) })
	if err == nil {
		r.compare(raw)
	}
	return err
}

// endLate closes the client cleanUpTime after ctx has ended, unless stop is called before. Calls
// under way are not interrupted before, so that an interrupted run still removes its file.
func endLate(ctx context.Context, c *nfsclient.Client) (stop func()) {
	ended, most := make(chan struct{}), cleanUpTime
	context.AfterFunc(ctx, func() {
		late := time.NewTimer(most)
		defer late.Stop()
		select {
		case <-late.C:
			c.Close()
		case <-ended:
		}
	})
	return func() { close(ended) }
}

// rawPlan is what of raw TCP the tests are compared with, each figure measured for
// at most a second before and after them.
func (b *run) rawPlan() rawPlan {
	return rawPlan{each: min(b.opts.Duration, 2*time.Second) / 2, peer: b.opts.RawPeer,
		reads: slices.Contains(b.opts.Tests, "read"), writes: slices.Contains(b.opts.Tests, "write")}
}

// run does the tests, and removes the file whatever becomes of them.
func (b *run) run(ctx context.Context) error {
	var err error
	for _, t := range AllTests {
		if !slices.Contains(b.opts.Tests, t) {
			continue
		}
		if err = b.test(ctx, t); err != nil {
			err = fmt.Errorf("%s: %w", t, err)
			break
		}
	}
	if e := b.cleanUp(); err == nil {
		err = e
	}
	return err
}
