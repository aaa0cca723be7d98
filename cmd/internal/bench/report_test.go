// The report: its figures, its ratios, its table and its JSON.

package bench

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// sample returns a report with one call of each kind.
func sample() *Report {
	r := &Report{Target: "nfsrdma://h/x", Transport: "rdma", CRC: "on", Depth: 4, Conns: 1, Size: 64 << 20, Verified: 3 << 30}
	for name, m := range map[string]*measured{
		"null": {elapsed: time.Second, cpu: cpuTime{client: 20 * time.Microsecond}},
		"read": {elapsed: 2 * time.Second, bytes: 512 << 20, allocs: 0.25, cpu: cpuTime{client: 800 * time.Microsecond, server: time.Millisecond}},
	} {
		m.h.Add(10 * time.Microsecond)
		m.h.Add(30 * time.Microsecond)
		r.add(name, m, 4)
	}
	if r.Tests[0].Name != "null" { // map order
		r.Tests[0], r.Tests[1] = r.Tests[1], r.Tests[0]
	}
	return r
}

func TestFiguresOfATest(t *testing.T) {
	x := sample().Tests[1]
	if x.Name != "read" || x.Depth != 4 {
		t.Errorf("%s with depth %d, want read with 4", x.Name, x.Depth)
	}
	amounts := []float64{float64(x.Calls), float64(x.Bytes), float64(x.Secs), float64(x.PerSec), float64(x.MiBs)}
	if want := []float64{2, 512 << 20, 2, 1, 256}; !slices.Equal(amounts, want) {
		t.Errorf("calls, bytes, seconds, calls/s, MiB/s: %v, want %v", amounts, want)
	}
	costs := []float64{float64(x.MinUs), float64(x.AvgUs), float64(x.MaxUs), float64(x.Allocs), float64(x.Ratio), float64(x.ClientCPUUs), float64(x.ServerCPUUs)}
	if want := []float64{10, 20, 30, 0.25, 0, 400, 500}; !slices.Equal(costs, want) {
		t.Errorf("least, mean, most µs, allocations, ratio, CPU times: %v, want %v", costs, want)
	}
}

func TestRatiosAreThoseOfThroughputAndLatency(t *testing.T) {
	r := &Report{Tests: []*TestReport{{Name: "null", AvgUs: 60}, {Name: "getattr", AvgUs: 60}, {Name: "read", MiBs: 500},
		{Name: "write", MiBs: 250}, {Name: "randread", MiBs: 100}}}
	r.compare(rawReport{StreamMiBs: 1000, PingPongUs: 40})
	for i, want := range []float64{1.5, 0, 0.5, 0.25, 0} {
		if r.Tests[i].Ratio != want {
			t.Errorf("%s: %v, want %v", r.Tests[i].Name, r.Tests[i].Ratio, want)
		}
	}
	if r.Raw.StreamMiBs != 1000 || r.Raw.PingPongUs != 40 {
		t.Errorf("%+v", r.Raw)
	}
}

func TestTable(t *testing.T) {
	r := sample()
	r.compare(rawReport{StreamMiBs: 1024, PingPongUs: 10, Limits: limitReport{ReadCRC: 512}})
	var b strings.Builder
	if err := r.Table(&b); err != nil {
		t.Fatalf("Table: %v", err)
	}
	want := []string{
		"nfsrdma://h/x over rdma, CRC on, depth 4, 1 connection, file of 64.0 MiB",
		"",
		"test depth MiB/s calls/s avg µs p50 µs p99 µs CPU µs/call allocs/call to raw TCP to limit",
		"raw TCP stream 1 MiB 1 1024",
		"raw TCP ping-pong 100 B 1 100000 10.0",
		"limit: pread, CRC at both ends 1 512 50%",
		"NULL 4 2 20.0 29.7 29.7 10.0 0.00 2.00×",
		"READ 1 MiB 4 256 1 20.0 29.7 29.7 400.0 + 500.0 0.25 25% 50%",
		"",
		"verified: 3.0 GiB byte by byte, the rest by its stamps",
		"",
	}
	lines := strings.Split(b.String(), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), &b)
	}
	for i, line := range lines {
		if got := strings.Join(strings.Fields(line), " "); got != want[i] {
			t.Errorf("line %d: %q, want %q", i, got, want[i])
		}
	}
}

func TestTableWithoutYardstickAndCRC(t *testing.T) {
	r := sample()
	r.CRC, r.Verified, r.Transport, r.Conns = "", 0, "tcp", 2
	var b strings.Builder
	if err := r.Table(&b); err != nil {
		t.Fatalf("Table: %v", err)
	}
	if out := b.String(); strings.Contains(out, "CRC") || strings.Contains(out, "verified") || strings.Contains(out, "raw TCP stream") ||
		!strings.Contains(out, "over tcp, depth 4, 2 connections, ") {
		t.Error(out)
	}
}

// Other block sizes have other titles, and READDIRPLUS counts entries rather than bytes.
func TestTitlesAndEntries(t *testing.T) {
	r := &Report{Block: 64 << 10}
	for _, name := range []string{"read", "write", "readdirplus"} {
		m := &measured{elapsed: 2 * time.Second, bytes: 3000}
		m.h.Add(time.Millisecond)
		r.add(name, m, 1)
	}
	for i, want := range []string{"READ 64 KiB", "WRITE 64 KiB + COMMIT", "READDIRPLUS"} {
		if got := r.title(r.Tests[i]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if x := r.Tests[2]; x.Entries != 1500 || x.Bytes != 0 || x.MiBs != 0 {
		t.Errorf("%+v", x)
	}
	var b strings.Builder
	if err := r.Table(&b); err != nil || !strings.Contains(b.String(), "READDIRPLUS: 1500 entries/s\n") {
		t.Errorf("%v\n%s", err, &b)
	}
	r.Block = seqBlock
	if got := r.title(r.Tests[0]); got != "READ 1 MiB" {
		t.Errorf("%q", got)
	}
}

// Scripts depend on the names of fields.
func TestJSONFields(t *testing.T) {
	r := sample()
	r.compare(rawReport{StreamMiBs: 1024, PingPongUs: 10, Limits: limitReport{ReadCRC: 512, Write: 1}})
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	var top map[string]any
	must.Succeed(t, json.Unmarshal(out, &top))
	test := top["tests"].([]any)[1].(map[string]any)
	raw := top["raw_tcp"].(map[string]any)
	for _, c := range []struct {
		in   map[string]any
		keys string
	}{
		{top, "target transport crc depth conns size_bytes block_bytes verified_bytes raw_tcp tests"},
		{raw, "stream_mib_s ping_pong_seconds limits"},
		{raw["limits"].(map[string]any), "read_crc_mib_s write_mib_s"},
		{test, "name depth calls bytes seconds calls_per_s mib_s min_seconds mean_seconds p50_seconds p99_seconds max_seconds client_allocs_per_call client_cpu_seconds_per_call server_cpu_seconds_per_call ratio_to_raw ratio_to_limit"},
	} {
		keys := strings.Fields(c.keys)
		for _, k := range keys {
			if _, ok := c.in[k]; !ok {
				t.Errorf("no %s in %s", k, out)
			}
		}
		if len(keys) != len(c.in) {
			t.Errorf("%d fields, want %d: %v", len(c.in), len(keys), c.in)
		}
	}
}

// A brokenWriter accepts as many bytes as its value, and then fails.
type brokenWriter int

var errBroken = errors.New("broken")

func (w *brokenWriter) Write(p []byte) (int, error) {
	if *w -= brokenWriter(len(p)); *w < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestTablesReportWriteErrors(t *testing.T) {
	for name, table := range map[string]func(*brokenWriter) error{
		"bench": func(w *brokenWriter) error { return sample().Table(w) }, "verbs": func(w *brokenWriter) error { return verbsSample().Table(w) },
	} {
		w := brokenWriter(150)
		if err := table(&w); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
