// Tests for charts: one drawing, byte by byte, and the ends of scales.

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestChartGolden compares a chart with testdata/chart.svg; UPDATE=1 writes the file.
func TestChartGolden(t *testing.T) {
	s := samples{}
	w := sweep{"x", "calls <in> flight & more", []string{"read"}, []int{1024, 2048, 4096}, atDepth, kib}
	for i, place := range w.places {
		s.add(w.key(place)+"/read/rdma", float64(500+400*i))
		s.add(w.key(place)+"/read/tcp", float64(900-200*i))
	}
	got := w.chart("read", s, []target{rdma, tcp}).svg()
	const file = "testdata/chart.svg"
	if os.Getenv("UPDATE") != "" {
		must.Succeed(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%v; the chart is not that of %s (UPDATE=1 writes it):\n%s", err, file, got)
	}
	for d := xml.NewDecoder(strings.NewReader(got)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("not XML: %v", err)
		}
	}
}

func TestChartScale(t *testing.T) {
	for most, want := range map[float64]float64{0: 1, 0.3: 0.5, 1: 1, 1.01: 2, 2400: 5000, 60_000: 100_000, 99: 100} {
		c := chart{Curves: []curve{{Values: []float64{0, most}}, {Values: []float64{most / 2}}}}
		if got := c.top(); got < want*0.999 || got > want*1.001 {
			t.Errorf("%v: %v, want %v", most, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.4: "0.4", 1500: "1500", 20_000: "20k", 12_500: "12.5k"} {
		if got := tick(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	if x := (chart{Places: []string{"one"}}).x(0); x != frameLeft+frameWidth/2 {
		t.Errorf("a single place is at %v", x)
	}
}

// TestGraphsDiffer: each graph has a file name of its own, and a title. Each point of a sweep is a
// different job.
func TestGraphsDiffer(t *testing.T) {
	names := map[string]bool{}
	for _, w := range sweeps {
		for _, test := range w.tests {
			c := w.chart(test, samples{}, []target{rdma})
			if names[c.Name] || c.Title == "" || len(c.Places) != len(w.places) || len(c.Curves[0].Values) != len(w.places) {
				t.Errorf("%+v", c)
			}
			names[c.Name] = true
			if want := map[bool]string{true: mib, false: calls}[test == "read" || test == "write"]; c.Y != want {
				t.Errorf("%s is in %s", c.Name, c.Y)
			}
		}
		for i, place := range w.places[1:] {
			if a, b := w.at(place), w.at(w.places[i]); a.depth == b.depth && a.block == b.block {
				t.Errorf("%s: two places are the same job", w.name)
			}
		}
	}
}
