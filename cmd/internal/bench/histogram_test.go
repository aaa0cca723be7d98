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
