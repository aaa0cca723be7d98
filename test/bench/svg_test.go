// Charts: one as it is drawn, byte by byte, and the ends of scales.

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// TestChartGolden compares a chart with testdata/chart.svg; UPDATE=1 writes that.
func TestChartGolden(t *testing.T) {
	s := samples{}
	p := plan{"x", "READ <1 MiB> & more", "calls in flight", mib, "read", []int{1, 2, 4}, atDepth, kib}
	for i, place := range p.places {
		s.add(p.key(place)+"/read/rdma", float64(500+400*i))
		s.add(p.key(place)+"/read/tcp", float64(900-200*i))
	}
	got := p.chart(s, []target{rdma, tcp}).svg()
	const file = "testdata/chart.svg"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
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

// Every graph has a file of its own, and one job for each place.
func TestPlansDiffer(t *testing.T) {
	names := map[string]bool{}
	for _, p := range plans {
		if names[p.name] || len(p.places) < 2 || p.title == "" {
			t.Errorf("%+v", p)
		}
		names[p.name] = true
		if a, b := p.at(p.places[0]), p.at(p.places[1]); a.depth == b.depth && a.block == b.block {
			t.Errorf("%s: two places are the same job", p.name)
		}
	}
}
