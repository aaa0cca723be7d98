// Comparisons: ratios from rounds and their table, each contest's measurements, and sides that
// cannot measure.

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want spread
	}{{nil, spread{}}, {[]float64{7}, spread{7, 7, 7}}, {[]float64{3, 1}, spread{2, 1.5, 2.5}}, {[]float64{5, 1, 4, 2, 3}, spread{3, 2, 4}}} {
		if got := spreadOf(c.of); got != c.want {
			t.Errorf("%v: %v, want %v", c.of, got, c.want)
		}
	}
}

// TestComparisonTable: a ratio compares figures from one round. A row is not measured if a side has
// no figure.
func TestComparisonTable(t *testing.T) {
	chosen := []contest{
		{"data", ", TCP", job{target: tcp, tests: "read,write", depth: 8}, false},
		{"beside", ", TCP", job{target: tcp, tests: "getattr", depth: 8}, true},
	}
	this := samples{"data/1/8/read/tcp": {900, 450, 1000}, "data/1/8/read/tcp/cpu": {300, 310, 290}, "data/1/8/read/tcp/clientcpu": {200, 200, 200}}
	other := samples{"data/1/8/read/tcp": {1000, 500, 1000}, "data/1/8/read/tcp/cpu": {280, 280, 280}, "data/1/8/read/tcp/clientcpu": {210, 220, 230}}
	c := config{cpus: "0,1", place: placeApart, against: "v1", rounds: 3, duration: time.Second}
	r := newComparison(c, chosen, [2]*side{{samples: this}, {samples: other}}, map[string]string{"beside, TCP": "other: no such flag"})
	want := []string{
		"this other ratio quartiles server CPU other client CPU other",
		"READ 1 MiB, TCP 900 1000 MiB/s 0.900 0.900…0.950 300 280 200 220 ms/GiB",
		"WRITE 1 MiB + COMMIT, TCP not measured: a side has no figure",
		"p50 of GETATTR, TCP not measured: other: no such flag",
		"p99 of GETATTR, TCP not measured: other: no such flag",
	}
	got := strings.Split(strings.TrimSpace(r.table()), "\n")
	if len(got) != len(want)+4 {
		t.Fatalf("%d lines:\n%s", len(got), r.table())
	}
	if want := "place apart; medians of 3 rounds of 1s a figure"; !strings.HasSuffix(got[1], want) {
		t.Errorf("%q does not end with %q", got[1], want)
	}
	for i, l := range got[4:] {
		if l = strings.Join(strings.Fields(l), " "); l != want[i] {
			t.Errorf("got  %q\nwant %q", l, want[i])
		}
	}
	dir := t.TempDir()
	if err := r.write(dir); err != nil {
		t.Fatalf("write: %v", err)
	}
	var back comparison
	figures, err := os.ReadFile(filepath.Join(dir, "figures.json"))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	must.Succeed(t, json.Unmarshal(figures, &back))
	if got := back.Other["data/1/8/read/tcp"]; !slices.Equal(got, []float64{1000, 500, 1000}) {
		t.Errorf("samples in JSON: %v", got)
	}
}

// TestContestsReadWhatIsMeasured: every row in a contest has a figure, and the CPU time on both
// ends. Reports of older revisions, with JSON in microseconds, give them, too.
func TestContestsReadWhatIsMeasured(t *testing.T) {
	old := strings.NewReplacer(`"mean_seconds":0.`, `"avg_us":1.`, `"p50_seconds":0.`, `"p50_us":1.`, `"p99_seconds":0.`, `"p99_us":1.`)
	for name, text := range map[string]string{"now": benchJSON, "before": old.Replace(benchJSON)} {
		var report report
		must.Succeed(t, json.Unmarshal([]byte(text), &report))
		for _, c := range contests {
			s := samples{}
			s.addReport(c.key(), c.job.target, report)
			for _, x := range c.rows() {
				if c.group == onlyNamed {
					continue // written by addProgram
				}
				if len(s[x.value]) != 1 || s[x.value][0] <= 0 {
					t.Errorf("%s: %s is %v", name, x.value, s[x.value])
				}
				if key := cpuKey(x.value); len(s[key+"/cpu"]) != 1 || len(s[key+"/clientcpu"]) != 1 {
					t.Errorf("%s: no CPU time of %s", name, key)
				}
			}
		}
	}
}

// testCompare compares our server with itself, and with a directory that lacks the commands.
func testCompare(t *testing.T, b *bed) {
	chosen := []contest{
		{"data", ", TCP", job{target: tcp, tests: "read", depth: 2, size: 1 << 20}, false},
		{"beside", ", TCP", job{target: tcp, tests: "getattr", depth: 2, size: 1 << 20}, true},
	}
	sides := [2]*side{{"this", b.ours, samples{}}, {"other", b.ours, samples{}}}
	failed, err := b.compare(t.Context(), chosen, sides)
	if err != nil {
		t.Fatalf("compare: %v", err)
	}
	if len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
	for _, l := range newComparison(b.config, chosen, sides, failed).Rows {
		if l.Missing != "" || l.Ratio.Median <= 0 || l.This.Figure <= 0 || l.Other.Figure <= 0 {
			t.Errorf("%+v", l)
		}
	}
	gone := *b.ours
	gone.programs = t.TempDir()
	sides[1].server = &gone
	failed, err = b.compare(t.Context(), chosen, sides)
	if err != nil {
		t.Fatalf("compare: %v", err)
	}
	for _, c := range chosen {
		if why := failed[c.group+c.name]; !strings.HasPrefix(why, "other: ") || !strings.Contains(why, "no such file") {
			t.Errorf("%s: %q", c.group, why)
		}
	}
}

// TestKnownFlags: a server of another revision gets only the flags in its help.
func TestKnownFlags(t *testing.T) {
	program := filepath.Join(t.TempDir(), "nfsrdmad")
	must.Succeed(t, os.WriteFile(program, []byte("#!/bin/sh\necho '  --crc MODE\n  --no-root-squash   keep\n  --max-conns-per-host N'\n"), 0o755))
	got, err := knownFlags(program, []string{"--crc=auto", "--no-root-squash", "--max-conns=1", "--max-conns-per-host=2"})
	if err != nil {
		t.Fatalf("knownFlags: %v", err)
	}
	if want := []string{"--crc=auto", "--no-root-squash", "--max-conns-per-host=2"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	dir, remove, err := otherCommands(t.Context(), filepath.Dir(program))
	if err != nil {
		t.Fatalf("otherCommands: %v", err)
	}
	remove()
	if dir != filepath.Dir(program) {
		t.Errorf("the other commands are in %s, want %s", dir, filepath.Dir(program))
	}
	if _, err := os.Stat(program); err != nil {
		t.Errorf("what was given is removed: %v", err)
	}
	if _, _, err := otherCommands(t.Context(), "no-such-revision"); err == nil || !strings.Contains(err.Error(), "-against no-such-revision is no revision") {
		t.Errorf("no revision: %v", err)
	}
}
