// The last screen of the benchmark demonstration.

package main

import (
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
)

func TestCompareDemo(t *testing.T) {
	report := func(calls, read, write float64) *bench.Report {
		return &bench.Report{Tests: []*bench.TestReport{
			{Name: "null", PerSec: 7}, {Name: "write", Bytes: 1, MiBs: write}, {Name: "read", Bytes: 1, MiBs: read}, {Name: "getattr", PerSec: calls},
		}}
	}
	var out strings.Builder
	if err := compareDemo(&out, report(200000, 3000, 2000), report(100000, 2500, 4000)); err != nil {
		t.Fatalf("compareDemo: %v", err)
	}
	const want = `                  NFS over RDMA     NFS over TCP   RDMA / TCP
       GETATTR   200000 calls/s   100000 calls/s         2.00
    READ 1 MiB       3000 MiB/s       2500 MiB/s         1.20
   WRITE 1 MiB       2000 MiB/s       4000 MiB/s         0.50
In this run RDMA, with CRCs, is faster for GETATTR and READ 1 MiB, TCP for WRITE 1 MiB. More: -v
`
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for meaning, tcp := range map[string]*bench.Report{"RDMA, with CRCs, is faster for all.": report(1, 1, 1), "TCP is faster for all than RDMA with CRCs.": report(9, 9, 9)} {
		out.Reset()
		if err := compareDemo(&out, report(2, 2, 2), tcp); err != nil {
			t.Fatalf("compareDemo: %v", err)
		}
		if !strings.Contains(out.String(), "In this run "+meaning) {
			t.Errorf("%q, want %q", out.String(), meaning)
		}
	}
}

func TestDemo(t *testing.T) {
	out := nfs(t, "demo", "--duration", "20ms")
	_, end, ok := strings.Cut(out, "verified")
	if !ok {
		t.Fatalf("nothing is verified:\n%s", out)
	}
	_, screen, _ := strings.Cut(end, "\n\n")
	if lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n"); len(lines) != 5 {
		t.Errorf("the last screen has %d lines, want 5:\n%s", len(lines), screen)
	}
	if out := nfs(t, "demo", "-v", "--duration", "20ms"); !strings.Contains(out, "to raw TCP") {
		t.Errorf("no table with -v:\n%s", out)
	}
}
