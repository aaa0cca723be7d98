// The histogram: counts, quantiles, and the error of its buckets.

package bench

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var a, b Histogram
	for i := 1; i <= 1000; i++ {
		h := &a
		if i%3 == 0 {
			h = &b
		}
		h.Add(time.Duration(i) * time.Microsecond)
	}
	a.merge(&b)
	if a.N != 1000 || a.Min != time.Microsecond || a.Max != time.Millisecond || a.Mean() != 500500*time.Nanosecond {
		t.Errorf("n %d, from %v to %v, mean %v", a.N, a.Min, a.Max, a.Mean())
	}
	for q, want := range map[float64]time.Duration{0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond} {
		if got := a.Quantile(q); got < want*96/100 || got > want*104/100 {
			t.Errorf("quantile %v: %v, want about %v", q, got, want)
		}
	}
	for d := time.Duration(0); d < time.Hour; d = d*5/4 + 1 {
		if f := floor(bucket(d)); f > d || d-f > d/latencySteps+1 {
			t.Fatalf("%v is counted as %v", d, f)
		}
	}
}

func TestHistogramOfNothing(t *testing.T) {
	var h, other Histogram
	h.merge(&other)
	if h.N != 0 || max(h.Mean(), h.Quantile(0.5), h.Min, h.Max) != 0 {
		t.Errorf("%d, %v, %v, %v to %v, want zeros", h.N, h.Mean(), h.Quantile(0.5), h.Min, h.Max)
	}
	other.Add(time.Second)
	h.merge(&other) // Min becomes other's, and not the 0 of the empty histogram
	if h.N != 1 || h.Min != time.Second || h.Max != time.Second {
		t.Errorf("%d, %v to %v", h.N, h.Min, h.Max)
	}
}

// Quantiles stay between the least and the largest duration, whatever the width of a bucket.
func TestQuantilesAreBounded(t *testing.T) {
	var h Histogram
	h.Add(1000*time.Nanosecond + 3)
	for _, q := range []float64{0, 0.5, 0.99, 1} {
		if got := h.Quantile(q); got != h.Min {
			t.Errorf("quantile %v of one: %v, want %v", q, got, h.Min)
		}
	}
	h.Add(-time.Second)
	h.Add(1<<63 - 1)
	if h.Min != 0 || h.Quantile(0) != 0 || h.Max != 1<<63-1 || h.Quantile(1) != h.Max {
		t.Errorf("%v to %v, quantiles %v to %v", h.Min, h.Max, h.Quantile(0), h.Quantile(1))
	}
}

func TestHistogramAllocatesNothing(t *testing.T) {
	var h, other Histogram
	d := time.Duration(1)
	if n := testing.AllocsPerRun(1000, func() {
		h.Add(d)
		other.merge(&h)
		d = d*3 + 1
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
