// The end of nfsrdma demo: NFS over RDMA compared with NFS over TCP.

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
)

// demoTests are the rows of the comparison, by test name.
var demoTests = []struct{ test, title string }{
	{"getattr", "GETATTR"}, {"read", "READ 1 MiB"}, {"write", "WRITE 1 MiB"},
}

// demoBench measures the server over both transports and compares them. With verbose it first runs
// all tests, including raw TCP, and shows their tables.
func demoBench(ctx context.Context, s *session.Session, out io.Writer, rdma, tcp string, d time.Duration, verbose bool) error {
	o := bench.Options{Depth: 8, Size: 64 << 20, Duration: d, Tests: bench.Tests, NoRaw: !verbose}
	if !verbose {
		o.Tests = nil
		for _, row := range demoTests {
			o.Tests = append(o.Tests, row.test)
		}
	}
	var reports [2]*bench.Report
	for i, url := range []string{rdma, tcp} {
		r, err := runBench(ctx, s, url, o, 0)
		if err != nil {
			return err
		}
		if verbose {
			if err := r.Table(out); err != nil {
				return err
			}
			fmt.Fprintln(out)
		}
		reports[i] = r
	}
	return compareDemo(out, reports[0], reports[1])
}

// compareDemo writes five lines: a row per test, and which transport is faster.
func compareDemo(out io.Writer, rdma, tcp *bench.Report) error {
	tw := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "\tNFS over RDMA\tNFS over TCP\tRDMA / TCP\t\n")
	var faster, slower []string
	for _, row := range demoTests {
		over, beside := demoRate(rdma, row.test), demoRate(tcp, row.test)
		unit := "MiB/s"
		if row.test == "getattr" {
			unit = "calls/s"
		}
		ratio := over / beside
		if ratio >= 1 {
			faster = append(faster, row.title)
		} else {
			slower = append(slower, row.title)
		}
		fmt.Fprintf(tw, "%s\t%.0f %s\t%.0f %s\t%.2f\t\n", row.title, over, unit, beside, unit, ratio)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	meaning := "RDMA, with CRCs, is faster for all"
	switch {
	case len(faster) == 0:
		meaning = "TCP is faster for all than RDMA with CRCs"
	case len(slower) > 0:
		meaning = "RDMA, with CRCs, is faster for " + strings.Join(faster, " and ") + ", TCP for " + strings.Join(slower, " and ")
	}
	_, err := fmt.Fprintf(out, "In this run %s. More: -v\n", meaning)
	return err
}

// demoRate returns MiB or calls per second.
func demoRate(r *bench.Report, test string) float64 {
	for _, t := range r.Tests {
		if t.Name == test && t.Bytes > 0 {
			return t.MiBs
		}
		if t.Name == test {
			return t.PerSec
		}
	}
	return 0
}
