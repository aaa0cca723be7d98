// The report of a mount: medians, spreads, limits, and the exact table and JSON.

package bench

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func figure(values ...float64) (f Figure) {
	for _, v := range values {
		f.add(v)
	}
	return f
}

// The median is the middle of the sorted values, or the mean of the middle two; the values keep the
// rounds' order.
func TestMedians(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{7}, 7}, {[]float64{1, 4}, 2.5}, {[]float64{9, 1, 5}, 5}, {[]float64{9, 1, 5, 6}, 5.5}, {[]float64{3, 100, 2, 1, 4}, 3},
	} {
		f := figure(c.values...)
		if f.Median != c.want {
			t.Errorf("%v: %v, want %v", c.values, f.Median, c.want)
		}
		for i, v := range c.values {
			if f.Values[i] != v {
				t.Errorf("%v became %v", c.values, f.Values)
			}
		}
	}
}

func TestSpreads(t *testing.T) {
	f := figure(10.26, 2.5, 40)
	for format, want := range map[string]string{"%.0f": "10 (2…40)", "%.2f": "10.26 (2.50…40.00)"} {
		if got := f.spread(format); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := new(Figure).spread("%.0f"); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

// The limit is the cost of both in sequence: never above either alone, and half of two equal ones.
func TestLimitOfAMount(t *testing.T) {
	for _, c := range []struct{ library, null, mount, limit, share float64 }{
		{100, 100, 50, 50, 1}, {300, 600, 100, 200, 0.5}, {600, 300, 400, 200, 2},
	} {
		r := DataRow{Library: figure(c.library), Null: figure(c.null), Mount: figure(c.mount)}
		r.compare()
		if d := r.Limit - c.limit; d > 1e-9 || d < -1e-9 {
			t.Errorf("%+v: limit %v", c, r.Limit)
		}
		if d := r.Share - c.share; d > 1e-9 || d < -1e-9 {
			t.Errorf("%+v: share %v", c, r.Share)
		}
	}
	p := PairRow{Mount: figure(1, 3, 9), Other: figure(2, 4, 6)}
	if p.compare(); p.Ratio != 0.75 {
		t.Errorf("ratio of the medians: %v", p.Ratio)
	}
}

// mountSample returns a report with both kinds of rows.
func mountSample() *MountReport {
	d := &DataRow{Name: "READ 1 MiB in order", Unit: "MiB/s", Library: figure(3000, 2900, 3200), Null: figure(6000, 5000, 6500), Mount: figure(1000, 1100, 900)}
	p := &PairRow{Name: "rm -r", Unit: "s", Mount: figure(0.5, 0.25), Beside: "loopback", Other: figure(0.125, 0.125)}
	q := &PairRow{Name: "read again, from the cache", Unit: "MiB/s", Mount: figure(8000), Beside: "a file in tmpfs", Other: figure(10000)}
	d.compare()
	p.compare()
	q.compare()
	return &MountReport{Target: "nfsrdma://h/x", Transport: "rdma", CRC: "on", Conns: 1, CPUs: 2, Rounds: 3, Depth: 8, Size: 64 << 20, Files: 10,
		Verified: 128 << 20, Data: []*DataRow{d}, Pairs: []*PairRow{q, p}, Skipped: []string{"git status, cold: there is no git here"}}
}

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// The tables are compared including spaces, because aligned columns make them readable.
func TestTablesAreAsTheyWere(t *testing.T) {
	r := sample()
	r.compare(rawReport{StreamMiBs: 1024, PingPongUs: 10, Limits: limitReport{ReadCRC: 512}})
	for name, table := range map[string]interface{ Table(io.Writer) error }{
		"mount.table": mountSample(),
		"bench.table": r,
		"verbs.table": verbsSample(),
	} {
		var b strings.Builder
		if err := table.Table(&b); err != nil {
			t.Fatalf("Table: %v", err)
		}
		golden(t, name, b.String())
	}
}

// Scripts read the JSON: every field with its name, position and value.
func TestJSONIsAsItWas(t *testing.T) {
	r := sample()
	r.compare(rawReport{StreamMiBs: 1024, PingPongUs: 10, Limits: limitReport{ReadCRC: 512}})
	for name, report := range map[string]any{"mount.json": mountSample(), "bench.json": r, "verbs.json": verbsSample()} {
		out, err := json.MarshalIndent(report, "", "  ")
		if err != nil {
			t.Fatalf("json.MarshalIndent: %v", err)
		}
		golden(t, name, string(out)+"\n")
	}
}

// Unknown values, and skips that did not happen, are omitted in both forms.
func TestMountReportLeavesOutWhatThereIsNot(t *testing.T) {
	r := mountSample()
	r.Transport, r.CRC, r.Conns, r.CPUs, r.Rounds, r.Skipped = "tcp", "", 2, 1, 1, nil
	var b strings.Builder
	if err := r.Table(&b); err != nil || !strings.HasPrefix(b.String(), "nfsrdma://h/x over tcp, 2 connections, 1 CPU; medians of 1 round (least…most)\n") {
		t.Errorf("%v\n%s", err, &b)
	}
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatalf("json.Marshal: %v", err)
	}
	for _, no := range []string{"crc", "skipped", "not measured"} {
		if strings.Contains(string(out), no) || strings.Contains(b.String(), no) {
			t.Errorf("%s in\n%s\n%s", no, out, &b)
		}
	}
}

// A write error at any point of a table is returned.
func TestMountTableReportsWriteErrors(t *testing.T) {
	var b strings.Builder
	if err := mountSample().Table(&b); err != nil {
		t.Fatalf("Table: %v", err)
	}
	header := strings.Index(b.String(), "\n\n") + 2
	for _, room := range []int{header, header + 50, strings.Index(b.String(), "ratio"), b.Len() - 1} {
		w := brokenWriter(room)
		if err := mountSample().Table(&w); !errors.Is(err, errBroken) {
			t.Errorf("after %d bytes: %v", room, err)
		}
	}
}
