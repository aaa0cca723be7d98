// Prometheus' text format: golden samples, invalid numbers, truncated and hostile texts.

package figures

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

const text = `# HELP nfsrdma_calls_total Calls by procedure.
# TYPE nfsrdma_calls_total counter
nfsrdma_calls_total{procedure="READ",program="nfs",transport="rdma"} 1.5e+06
nfsrdma_calls_total{procedure="a\"b\\c\nd,}", transport="tcp",} 7 1395066363000
# TYPE took_seconds histogram
took_seconds_bucket{procedure="READ",le="0.001"} 3
took_seconds_bucket{procedure="READ",le="1"} 9
took_seconds_bucket{procedure="READ",le="+Inf"} 10
took_seconds_sum{procedure="READ"} 12.5
took_seconds_count{procedure="READ"} 10
process_cpu_seconds_total 0.25
bad NaN
worse +Inf
not_a_histogram_sum 4
huge 1e999
large -1e21
`

func TestParse(t *testing.T) {
	got, err := Parse(text)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	want := Set{
		"nfsrdma_calls_total": {{Labels: map[string]string{"procedure": "READ", "program": "nfs", "transport": "rdma"}, Value: 1.5e6},
			{Labels: map[string]string{"procedure": "a\"b\\c\nd,}", "transport": "tcp"}, Value: 7}},
		"took_seconds":              {{Labels: map[string]string{"procedure": "READ"}, Value: 12.5, Classes: []Class{{0.001, 3}, {1, 9}, {0, 10}}}},
		"process_cpu_seconds_total": {{Labels: map[string]string{}, Value: 0.25}},
		"not_a_histogram_sum":       {{Labels: map[string]string{}, Value: 4}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if n := got.Sum("nfsrdma_calls_total"); n != 1.5e6+7 {
		t.Errorf("sum %v", n)
	}
	if n := got.Sum("nfsrdma_calls_total", "transport", "tcp"); n != 7 {
		t.Errorf("sum over TCP %v", n)
	}
	if h := got["took_seconds"][0]; h.Count() != 10 || (&Sample{}).Count() != 0 {
		t.Errorf("%v calls", h.Count())
	}
}

// TestRefused: invalid text is an error with its line number.
func TestRefused(t *testing.T) {
	for _, bad := range []string{"<html>\n", "name", "name{", `name{a="b" 1`, `name{a="b\`, `name{a=b} 1`, "name x", "name 1 2 3", "{} 1", " = 1 2 3 4",
		"name{" + strings.Repeat(`a="b",`, 5) + strings.Repeat("=", 9), "x 1\n" + strings.Repeat("x 1\n", maxSamples)} {
		if set, err := Parse(bad); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%.40q: %v, %v", bad, len(set), err)
		}
	}
	var b strings.Builder
	for i := range maxLabels + 2 {
		b.WriteString(strings.Repeat("a", i+1) + `="",`)
	}
	if _, err := Parse("x{" + b.String() + "} 1"); err == nil {
		t.Error("labels without bound")
	}
}

// TestQuantile matches Prometheus' histogram_quantile, at class bounds and beyond.
func TestQuantile(t *testing.T) {
	classes := []Class{{0.01, 50}, {0.1, 90}, {1, 90}, {0, 100}}
	for share, want := range map[float64]float64{0.25: 0.005, 0.5: 0.01, 0.7: 0.055, 0.9: 0.1, 0.99: 1} {
		if got := Quantile(classes, share); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: %v, want %v", share, got, want)
		}
	}
	if Quantile(nil, 0.5) != 0 || Quantile(classes[:1], 0.5) != 0 {
		t.Error("of nothing")
	}
}

// FuzzParse: no text breaks the parser, and every parsed value is a number.
func FuzzParse(f *testing.F) {
	for _, s := range []string{text, "", "a{} 1", `a{b="c"} -0`, "# TYPE a histogram\na_bucket 1\na_bucket{le=\"x\"} 1\na_count 0x1p-2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		set, err := Parse(s)
		if err != nil {
			return
		}
		for name, samples := range set {
			for i := range samples {
				v := append([]Class{{0, samples[i].Value}}, samples[i].Classes...)
				for _, c := range v {
					if math.IsNaN(c.Calls) || math.IsInf(c.Calls, 0) || math.IsNaN(c.Seconds) || math.IsInf(c.Seconds, 0) {
						t.Fatalf("%s: %v", name, c)
					}
				}
			}
		}
	})
}
