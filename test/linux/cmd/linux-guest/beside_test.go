// The ratios beside knfsd: read from a turn's output, and none for a turn that lacks a figure.

package main

import (
	"strings"
	"testing"
)

// aTurn is a turn's output, with a program's remark in between.
const aTurn = `linux tcp write 32 10.00 12.00
linux tcp read 32 12.00 13.00
linux tcp lookup 500 13.00 13.25
linux rdma write 32 20.00 22.00
linux rdma read 32 22.00 26.00
nfsrdma: a remark
linux rdma lookup 500 26.00 27.00
ours tcp { "tests": [ {"name": "getattr", "calls_per_s": 900}, {"name": "read", "calls_per_s": 30}, {"name": "write", "calls_per_s": 20.5} ] }
ours rdma { "tests": [ {"name": "getattr", "calls_per_s": 800}, {"name": "read", "calls_per_s": 31}, {"name": "write", "calls_per_s": 21} ] }
`

func TestReadRates(t *testing.T) {
	rates, err := readRates(aTurn)
	if err != nil {
		t.Fatalf("readRates: %v", err)
	}
	for m, want := range map[measurement]float64{
		{"linux", "tcp", "write"}: 16, {"linux", "tcp", "lookup"}: 2000, {"linux", "rdma", "read"}: 8,
		{"ours", "tcp", "write"}: 20.5, {"ours", "rdma", "getattr"}: 800,
	} {
		if got := rates[m]; got != want {
			t.Errorf("%v: got %v, want %v", m, got, want)
		}
	}
	for _, line := range strings.SplitAfter(aTurn, "\n") {
		if without := strings.Replace(aTurn, line, "", 1); without != aTurn && !strings.HasPrefix(line, "nfsrdma") {
			if got, err := readRates(without); err == nil {
				t.Errorf("without %q: got %v, want an error", line, got)
			}
		}
	}
	for was, is := range map[string]string{"13.00 13.25": "13.00 13.00", "500 26.00": "many 26.00", "write 32 10.00": "write 10.00", `"read", "calls_per_s": 30`: `"read", "calls_per_s": 0`, "ours tcp {": "ours tcp"} {
		if got, err := readRates(strings.Replace(aTurn, was, is, 1)); err == nil {
			t.Errorf("%q instead of %q: got %v, want an error", is, was, got)
		}
	}
}

func TestSpread(t *testing.T) {
	if got, want := spread([]float64{1.25, 0.5, 2}), "1.25× (0.50 to 2.00)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
