// Measurements of whole servers: the report, detected errors, and complete cleanup.

package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// quick returns options for a measurement of a few milliseconds without a baseline.
func quick() Options {
	return Options{Depth: 3, Size: 2 << 20, Duration: 5 * time.Millisecond, Tests: Tests, NoRaw: true}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(*Options) {}, ""},
		{func(o *Options) { o.Depth = 1 }, ""},
		{func(o *Options) { o.Depth = maxDepth }, ""},
		{func(o *Options) { o.Tests = nil }, ""},
		{func(o *Options) { o.Depth = 0 }, "--depth 0 is not in 1..1024"},
		{func(o *Options) { o.Depth = maxDepth + 1 }, "--depth 1025 is not in 1..1024"},
		{func(o *Options) { o.Tests = []string{"read", "Read"} }, "--tests Read: there are null, getattr, lookup, write, read, randread, randwrite, readdirplus"},
		{func(o *Options) { o.Block = 64 << 10 }, ""},
		{func(o *Options) { o.Block = 2 << 20 }, "--block 2097152 is not a power of two in 4096..1048576"},
		{func(o *Options) { o.Block = 12 << 10 }, "--block 12288 is not a power of two in 4096..1048576"},
		{func(o *Options) { o.Block = 2048 }, "--block 2048 is not a power of two in 4096..1048576"},
	} {
		o := quick()
		c.change(&o)
		got := ""
		if err := o.Check(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", o, got, c.want)
		}
		if c.want != "" {
			if err := Server(t.Context(), nil, "", o, new(Report)); err == nil || err.Error() != c.want {
				t.Errorf("Server with %+v: %v", o, err)
			}
		}
	}
}

// Every test runs over both transports, in the order of Tests rather than the requested order, and
// its counts are consistent.
func TestServerIsMeasured(t *testing.T) {
	for _, over := range []nfsclient.Transport{nfsclient.RDMA, nfsclient.TCP} {
		t.Run(over.String(), func(t *testing.T) {
			fsys := serve(t, over, memory())
			o := quick()
			o.Tests = []string{"write", "randread", "read", "randwrite", "lookup", "null", "getattr"}
			o.Size += 12345 // rounded down
			var r Report
			if err := Server(t.Context(), fsys, "file", o, &r); err != nil {
				t.Fatalf("Server: %v", err)
			}
			left(t, fsys, "file")
			if r.Depth != 3 || r.Size != 2<<20 || r.Raw != nil || len(r.Tests) != len(Tests) {
				t.Fatalf("%+v", r)
			}
			for i, x := range r.Tests {
				unit, depth := map[string]int64{"write": seqBlock, "read": seqBlock, "randread": randBlock, "randwrite": randBlock}[x.Name], 3
				if x.Name == "null" {
					depth = 1
				}
				if x.Name != Tests[i] || x.Depth != depth {
					t.Errorf("test %d: %s with depth %d, want %s with %d", i, x.Name, x.Depth, Tests[i], depth)
				}
				if x.Calls == 0 || x.Bytes != int64(x.Calls)*unit {
					t.Errorf("test %d: %d calls, %d bytes, want %d a call", i, x.Calls, x.Bytes, unit)
				}
				if x.Secs <= 0 || x.PerSec <= 0 {
					t.Errorf("test %d: %v s, %v calls/s, want more than 0", i, x.Secs, x.PerSec)
				}
				if !(0 < x.MinUs && x.MinUs <= x.P50Us && x.P50Us <= x.P99Us && x.P99Us <= x.MaxUs && x.MinUs <= x.AvgUs && x.AvgUs <= x.MaxUs) {
					t.Errorf("%s: latencies out of order: %+v", x.Name, x)
				}
			}
			// the file is verified after the layout, and after each of the two writing tests
			if want := 3 * r.Size; r.Verified != want {
				t.Errorf("verified %d bytes, want %d", r.Verified, want)
			}
		})
	}
}

func TestFileHasAtLeastOneBlock(t *testing.T) {
	fsys := serve(t, nfsclient.TCP, memory())
	o := quick()
	o.Size, o.Tests = 1, []string{"read"}
	var r Report
	if err := Server(t.Context(), fsys, "file", o, &r); err != nil || r.Size != seqBlock || r.Verified != seqBlock {
		t.Errorf("%v, %+v", err, r)
	}
}

// A listing repeatedly covers the file's whole directory and counts the entries.
func TestDirectoryIsListed(t *testing.T) {
	fsys := serve(t, nfsclient.RDMA, memory())
	if err := fsys.Mkdir(t.Context(), "dir", 0o755); err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	const names = 20
	for i := range names {
		if err := fsys.Mkdir(t.Context(), fmt.Sprintf("dir/%d", i), 0o755); err != nil {
			t.Fatalf("Mkdir: %v", err)
		}
	}
	o := quick()
	o.Tests = []string{"readdirplus"}
	var r Report
	if err := Server(t.Context(), fsys, "dir/file", o, &r); err != nil {
		t.Fatalf("Server: %v", err)
	}
	// a page of READDIRPLUS holds the whole directory, with "." and ".."
	if x := r.Tests[0]; x.Calls == 0 || math.Abs(x.Entries*x.Secs-float64(x.Calls*(names+2))) > 0.5 {
		t.Errorf("%+v", x)
	}
	if err := Server(t.Context(), fsys, "none/file", o, new(Report)); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a directory that there is not: %v", err)
	}
}

// The file is made only for tests that need it.
func TestNoFileWithoutNeed(t *testing.T) {
	var writes atomic.Int64
	tree := &liar{FS: memory(), write: func([]byte, uint64) error { writes.Add(1); return nil }}
	fsys := serve(t, nfsclient.TCP, tree)
	o := quick()
	o.Tests = []string{"null", "getattr"}
	var r Report
	if err := Server(t.Context(), fsys, "none/file", o, &r); err != nil || writes.Load() != 0 || r.Verified != 0 {
		t.Errorf("%v, %d writes, %+v", err, writes.Load(), r)
	}
}

// Wrong data from a server is detected by the first affected test: a stamp during the timed reads,
// any other byte by the verification.
func TestWrongDataIsFound(t *testing.T) {
	for _, c := range []struct {
		name, test, want string
		at               uint64 // offset of the changed byte
		from             int64  // number of the first changed read of that block
	}{
		{"a stamp, as it is laid out", "read", "read: verify: wrong data at offset 4096", 4096 + 3, 0},
		{"a byte, as it is laid out", "read", "read: verify: wrong data in the block at offset 1048576", 1<<20 + 4000, 0},
		{"a stamp, in the test", "read", "read: wrong data at offset 0", 7, 1},
		{"a stamp, read at random", "randread", "randread: wrong data at offset 8192", 2 * 4096, 1},
		{"a byte, after the test", "write", "write: verify: wrong data in the block at offset 0", 4095, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var reads atomic.Int64
			tree := &liar{FS: memory(), read: func(p []byte, off uint64) {
				if c.at >= off && c.at < off+uint64(len(p)) && reads.Add(1) > c.from {
					p[c.at-off] ^= 0x20
				}
			}}
			fsys := serve(t, nfsclient.TCP, tree)
			o := quick()
			o.Tests, o.Duration = []string{c.test}, time.Hour // the detection ends it
			if c.test == "write" {
				o.Duration = time.Millisecond
			}
			var r Report
			if err := Server(t.Context(), fsys, "file", o, &r); err == nil || err.Error() != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
			left(t, fsys, "file")
		})
	}
}

func TestErrorsOfTheServerEndTheMeasurement(t *testing.T) {
	full := &liar{FS: memory(), write: func([]byte, uint64) error { return syscall.ENOSPC }}
	fsys := serve(t, nfsclient.RDMA, full)
	var r Report
	err := Server(t.Context(), fsys, "file", quick(), &r)
	if !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "lookup: lay out the file: ") {
		t.Errorf("%v", err)
	}
	if len(r.Tests) != 2 { // the two that need no file
		t.Errorf("%d tests", len(r.Tests))
	}
	left(t, fsys, "file")
	if err := Server(t.Context(), fsys, "no/file", quick(), new(Report)); !errors.Is(err, syscall.ENOENT) || strings.Contains(err.Error(), "lay out") {
		t.Errorf("a directory that does not exist: %v", err)
	}
}

// An interruption ends a test in its middle, and the file is removed nevertheless.
func TestInterruptionLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var reads atomic.Int64
	tree := &liar{FS: memory(), read: func([]byte, uint64) {
		if reads.Add(1) == 20 {
			cancel()
		}
	}}
	fsys := serve(t, nfsclient.RDMA, tree)
	o := quick()
	o.Tests, o.Duration = []string{"read"}, time.Hour
	if err := Server(ctx, fsys, "file", o, new(Report)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	left(t, fsys, "file")
}

// Raw TCP is measured in the same run, and the report has the possible ratios to it.
func TestYardstickIsInTheReport(t *testing.T) {
	fsys := serve(t, nfsclient.RDMA, memory())
	o := quick()
	o.NoRaw = false
	o.Tests = []string{"null", "getattr", "read", "write", "randread"}
	var r Report
	if err := Server(t.Context(), fsys, "file", o, &r); err != nil {
		t.Fatalf("Server: %v", err)
	}
	if r.Raw == nil || r.Raw.StreamMiBs <= 0 || r.Raw.PingPongUs <= 0 {
		t.Fatalf("%+v", r.Raw)
	}
	for _, x := range r.Tests {
		if related := x.Name == "null" || x.Name == "read" || x.Name == "write"; related != (x.Ratio > 0) {
			t.Errorf("%s: ratio %v", x.Name, x.Ratio)
		}
		if related := x.Name == "read" || x.Name == "write"; related != (x.Limit > 0) {
			t.Errorf("%s: share of the limit %v", x.Name, x.Limit)
		}
	}
}

// Each figure takes half the duration of a test, and at most a second. Limits are measured only for
// the selected tests.
func TestPlanOfTheYardstick(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{time.Millisecond: time.Millisecond / 2, 2 * time.Second: time.Second, time.Hour: time.Second} {
		b := run{opts: Options{Duration: d, Tests: []string{"null", "read"}, RawPeer: "h:1"}}
		if got := b.rawPlan(); got != (rawPlan{each: want, reads: true, peer: "h:1"}) {
			t.Errorf("%v: %+v, want %v", d, got, want)
		}
	}
	b := run{opts: Options{Tests: []string{"write"}}}
	if got := b.rawPlan(); got.reads || !got.writes {
		t.Errorf("%+v", got)
	}
}

var _ nfsserver.FS = (*liar)(nil)

// stuck is a file tree that answers no READ until it is released.
type stuck struct {
	nfsserver.FS
	asked, end chan struct{}
	once       sync.Once
}

func (s *stuck) ReadAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	s.once.Do(func() { close(s.asked) })
	<-s.end
	return s.FS.ReadAt(c, r, p, off)
}

// TestInterruptedBesideASilentServer: an interrupted run ends although its calls do not.
func TestInterruptedBesideASilentServer(t *testing.T) {
	before := cleanUpTime
	cleanUpTime = time.Millisecond
	defer func() { cleanUpTime = before }()
	s := &stuck{FS: memory(), asked: make(chan struct{}), end: make(chan struct{})}
	fsys := serve(t, nfsclient.TCP, s)
	t.Cleanup(func() { close(s.end) }) // runs before the server is closed
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.asked
		cancel()
	}()
	o := Options{Depth: 1, Size: seqBlock, Duration: time.Minute, Tests: []string{"read"}, NoRaw: true}
	if err := Server(ctx, fsys, "file", o, new(Report)); err == nil {
		t.Error("no error, want that of the interruption")
	}
}
