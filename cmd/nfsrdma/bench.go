// nfsrdma bench: the command, and the order of its tests.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/spf13/cobra"
)

// benchTests is the tests that there are, in the order they run.
var benchTests = []string{"null", "getattr", "lookup", "write", "read", "randread", "randwrite"}

type benchFlags struct {
	depth    int
	size     string
	duration time.Duration
	tests    []string
	json     bool
	noRaw    bool
}

func newBench(s *session) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench URL",
		Short: "Measure a server: throughput, operations and latency, beside raw TCP when it is local",
		Long: `Measure a server. URL is a directory that may be written to; the measurement makes
one file there and removes it.

  null       NULL, one at a time: the latency of a round trip
  getattr    GETATTR at --depth
  lookup     LOOKUP of the file at --depth
  write      1 MiB writes in order, COMMIT at the end
  read       1 MiB reads in order
  randread   4 KiB reads anywhere
  randwrite  4 KiB writes anywhere, COMMIT at the end

All data is verified: stamps in every 4 KiB while the clock runs, every octet before
and after. When the server is on this machine, raw Go TCP between two processes is
measured in the same run.`,
		Example: `  nfsrdma bench nfsrdma://127.0.0.1/export
  nfsrdma bench --depth 32 --tests getattr server:/export
  nfsrdma bench --transport tcp --mount-port 20048 --json server:/export`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := s.newBenchRun(cmd.Context(), args[0], f)
			if err != nil {
				return err
			}
			if err := b.run(cmd.Context()); err != nil {
				return err
			}
			if f.json {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(b.report)
			}
			return b.report.table(cmd.OutOrStdout())
		},
	}
	cmd.Flags().IntVar(&f.depth, "depth", 8, "calls in flight (NULL is always one at a time)")
	cmd.Flags().StringVar(&f.size, "size", "256M", "size of the file, with K, M or G")
	cmd.Flags().DurationVar(&f.duration, "duration", 3*time.Second, "time of each test")
	cmd.Flags().StringSliceVar(&f.tests, "tests", benchTests, "tests to run")
	cmd.Flags().BoolVar(&f.json, "json", false, "write the report as JSON")
	cmd.Flags().BoolVar(&f.noRaw, "no-raw", false, "do not measure raw TCP")
	_ = cmd.RegisterFlagCompletionFunc("tests", cobra.FixedCompletions(benchTests, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// A benchRun is one run of bench.
type benchRun struct {
	fsys   *nfsclient.FS
	name   string // of the file, below the root of fsys
	flags  benchFlags
	size   int64
	local  bool
	pat    *pattern
	slots  []*benchSlot
	report benchReport
}

func (s *session) newBenchRun(ctx context.Context, arg string, f benchFlags) (*benchRun, error) {
	octets, err := cli.ParseSize(f.size)
	if err != nil {
		return nil, err
	}
	if f.depth < 1 || f.depth > 1024 {
		return nil, fmt.Errorf("--depth %d is not in 1..1024", f.depth)
	}
	for _, t := range f.tests {
		if !slices.Contains(benchTests, t) {
			return nil, fmt.Errorf("--tests %s: there are %s", t, strings.Join(benchTests, ", "))
		}
	}
	t, err := s.target(arg)
	if err != nil {
		return nil, argError(arg, err)
	}
	fsys, rest, err := s.mount(ctx, t)
	if err != nil {
		return nil, err
	}
	b := &benchRun{
		fsys: fsys, flags: f, local: isLocal(t.Host), pat: newPattern(uint64(time.Now().UnixNano())),
		size: max(octets/seqBlock, 1) * seqBlock,
		name: path.Join(rest, fmt.Sprintf(".nfsrdma-bench-%d", os.Getpid())),
	}
	b.report = benchReport{Target: t.String(), Transport: t.Transport.String(), Depth: f.depth,
		Conns: s.flags.conns, Size: b.size}
	if t.Transport == nfsclient.RDMA {
		b.report.CRC = s.flags.crc
	}
	for range f.depth {
		b.slots = append(b.slots, newBenchSlot(b.pat))
	}
	return b, nil
}

// isLocal says whether a host is this machine.
func isLocal(host string) bool {
	ips, err := net.LookupIP(host)
	if err != nil {
		return false
	}
	own, _ := net.InterfaceAddrs()
	for _, ip := range ips {
		if ip.IsLoopback() {
			return true
		}
		for _, a := range own {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
				return true
			}
		}
	}
	return false
}

// rawShare is how long each raw figure is measured, before and after the tests.
func (b *benchRun) rawShare() time.Duration { return min(b.flags.duration, 2*time.Second) / 2 }

// run does the tests. Raw TCP is measured before and after them, so that a
// machine that slows down does not make a figure look better or worse.
func (b *benchRun) run(ctx context.Context) error {
	raw := b.local && !b.flags.noRaw
	var before, after rawFigures
	var err error
	if raw {
		if before, err = measureRaw(ctx, b.rawShare()); err != nil {
			return fmt.Errorf("raw TCP: %w", err)
		}
	}
	for _, t := range benchTests {
		if !slices.Contains(b.flags.tests, t) {
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
	if err != nil || !raw {
		return err
	}
	if after, err = measureRaw(ctx, b.rawShare()); err != nil {
		return fmt.Errorf("raw TCP: %w", err)
	}
	b.report.compare(rawFigures{
		StreamMiBs: (before.StreamMiBs + after.StreamMiBs) / 2,
		PingPong:   (before.PingPong + after.PingPong) / 2,
	})
	return nil
}
