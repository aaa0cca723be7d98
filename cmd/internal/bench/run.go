// One server's measurement: its options, and its tests in order.

// Package bench measures an NFS server or the verbs alone, and in the same run raw TCP on this
// machine for comparison.
package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// Tests is the default list of tests, in their order.
var Tests = []string{"null", "getattr", "lookup", "write", "read", "randread", "randwrite"}

// AllTests adds the tests that depend on the directory's contents.
var AllTests = append(slices.Clone(Tests), "readdirplus")

// maxDepth limits the calls in flight: each call has 2 MiB of buffers in this process.
const maxDepth = 1024

// Options select the measurements.
type Options struct {
	Depth    int           // calls in flight, 1..maxDepth; NULL is always one at a time
	Size     int64         // file size in bytes, rounded down to MiB, at least one
	Block    int64         // bytes per sequential READ or WRITE; 0: 1 MiB; a power of two, 4 KiB..1 MiB
	Duration time.Duration // each test's time
	Tests    []string      // subset of AllTests
	NoRaw    bool          // skips the raw TCP baseline
	RawPeer  string        // a RawPeer's address at the server; empty: use a process on loopback

	// ServerPID is a local process whose CPU time counts as the server's; 0: unknown.
	ServerPID int
}

// Check validates the options; its error names the flag.
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

// A run is one measurement. It belongs to the goroutine that runs it. Only during a loop do other
// goroutines use slots, one slot each.
type run struct {
	fsys   *nfsclient.FS
	name   string // the file's name below fsys's root; the file's directory is listed
	opts   Options
	pat    *pattern
	slots  []*slot
	report *Report
}

// Server runs the tests of o with the file name below the root of fsys, makes and removes this
// file, and adds the figures to r. Raw TCP is measured before and after, so that a change in the
// machine's speed does not bias the ratios.
func Server(ctx context.Context, fsys *nfsclient.FS, name string, o Options, r *Report) error {
	if err := o.Check(); err != nil {
		return err
	}
	o.Size = max(o.Size/seqBlock, 1) * seqBlock
	b := &run{fsys: fsys, name: name, opts: o, pat: newPattern(uint64(time.Now().UnixNano())), report: r}
	r.Depth, r.Size, r.Block = o.Depth, o.Size, o.Block
	defer closeLate(ctx, fsys.Client())()
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

// closeLate closes the client cleanUpTime after ctx has ended, unless stop is called first. Running
// calls are not interrupted earlier, so an interrupted run still removes its file.
func closeLate(ctx context.Context, c *nfsclient.Client) (stop func()) {
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

// rawPlan returns which raw TCP measurements to make. Each takes at most a second before the tests,
// and a second after.
func (b *run) rawPlan() rawPlan {
	return rawPlan{each: min(b.opts.Duration, 2*time.Second) / 2, peer: b.opts.RawPeer,
		reads: slices.Contains(b.opts.Tests, "read"), writes: slices.Contains(b.opts.Tests, "write")}
}

// run runs the tests, and removes the file in any case.
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
