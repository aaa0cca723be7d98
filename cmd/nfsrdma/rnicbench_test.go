// rnic-bench: every figure is in both forms of output.

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/nfsrdma/nfsrdma/test/must"
)

func TestRnicBench(t *testing.T) {
	var r bench.VerbsReport
	must.Succeed(t, json.Unmarshal([]byte(nfs(t, "rnic-bench", "--duration", "2ms", "--json")), &r))
	if want := 4 * (2*6 + 1); len(r.Figures) != want || r.Raw.StreamMiBs <= 0 || r.Raw.PingPongUs <= 0 {
		t.Fatalf("%d figures, want %d: %+v", len(r.Figures), want, r)
	}
	for _, f := range r.Figures {
		if f.Count < 1 || f.Ratio <= 0 || (f.Test == "send") != (f.AvgUs > 0) || (f.Test == "send") == (f.MiBs > 0) {
			t.Errorf("%+v", f)
		}
	}
	var b strings.Builder
	if err := r.Table(&b); err != nil {
		t.Fatalf("Table: %v", err)
	}
	for _, word := range []string{"raw TCP:", "CRC off, markers on", "RDMA Read", "Send and answer"} {
		if !strings.Contains(b.String(), word) {
			t.Errorf("no %q in\n%s", word, &b)
		}
	}
}

// Over RoCE the baseline is raw UDP, without UCX; an unknown provider is refused.
func TestRnicBenchRoCE(t *testing.T) {
	out := nfs(t, "rnic-bench", "--rdma", "roce", "--duration", "1ms")
	for _, word := range []string{"raw UDP:", "RoCE, 1 % of packets lost", "Datagram and answer"} {
		if !strings.Contains(out, word) {
			t.Errorf("no %q in\n%s", word, out)
		}
	}
	for _, word := range []string{"raw TCP", "UCX"} {
		if strings.Contains(out, word) {
			t.Errorf("%q in\n%s", word, out)
		}
	}
}
