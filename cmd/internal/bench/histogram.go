// A latency histogram that records without allocation.

package bench

import (
	"math/bits"
	"time"
)

// Each power-of-two range in nanoseconds has latencySteps buckets: the error is below 3 %.
const (
	latencyBits  = 5
	latencySteps = 1 << latencyBits
)

// A Histogram counts durations. It belongs to one goroutine; merge joins several histograms.
type Histogram struct {
	N        uint64        // the number of durations
	Min, Max time.Duration // the least and the largest; 0 without durations

	sum    time.Duration
	counts [64 * latencySteps]uint32 // durations by bucket
}

func bucket(d time.Duration) int {
	v := uint64(d)
	if v < latencySteps {
		return int(v)
	}
	e := bits.Len64(v) - latencyBits - 1
	return (e+1)<<latencyBits + int(v>>e)&(latencySteps-1)
}

// floor returns the shortest duration in bucket i.
func floor(i int) time.Duration {
	if i < latencySteps {
		return time.Duration(i)
	}
	e := i>>latencyBits - 1
	return time.Duration(latencySteps+i&(latencySteps-1)) << e
}

// Add counts d. A negative duration, from a clock set back, counts as 0.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(d)]++
	if h.N == 0 || d < h.Min {
		h.Min = d
	}
	h.Max = max(h.Max, d)
	h.N++
	h.sum += d
}

func (h *Histogram) merge(o *Histogram) {
	if o.N == 0 {
		return
	}
	for i, c := range o.counts {
		h.counts[i] += c
	}
	if h.N == 0 || o.Min < h.Min {
		h.Min = o.Min
	}
	h.Max = max(h.Max, o.Max)
	h.N += o.N
	h.sum += o.sum
}

// Mean returns the average, or 0 without durations.
func (h *Histogram) Mean() time.Duration {
	if h.N == 0 {
		return 0
	}
	return h.sum / time.Duration(h.N)
}

// Quantile returns the latency that the share q of all durations does not exceed, within 3 %.
func (h *Histogram) Quantile(q float64) time.Duration {
	want, seen := uint64(q*float64(h.N)), uint64(0)
	for i, c := range h.counts {
		if seen += uint64(c); c > 0 && seen > want {
			return min(max(floor(i), h.Min), h.Max)
		}
	}
	return h.Max
}
