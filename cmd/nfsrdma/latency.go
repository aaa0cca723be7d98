// A histogram of latencies that records without allocation.

package main

import (
	"math/bits"
	"time"
)

// Each power of two of nanoseconds has latencySteps buckets: an error under 3 %.
const (
	latencyBits  = 5
	latencySteps = 1 << latencyBits
)

// A histogram counts durations. It belongs to one goroutine; merge joins several.
type histogram struct {
	counts [64 * latencySteps]uint32
	n      uint64
	sum    time.Duration
	lo, hi time.Duration
}

func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < latencySteps {
		return int(v)
	}
	e := bits.Len64(v) - latencyBits - 1
	return (e+1)<<latencyBits + int(v>>e)&(latencySteps-1)
}

// floor is the least duration that falls into bucket i.
func floor(i int) time.Duration {
	if i < latencySteps {
		return time.Duration(i)
	}
	e := i>>latencyBits - 1
	return time.Duration(latencySteps+i&(latencySteps-1)) << e
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(d)]++
	if h.n == 0 || d < h.lo {
		h.lo = d
	}
	h.hi = max(h.hi, d)
	h.n++
	h.sum += d
}

func (h *histogram) merge(o *histogram) {
	if o.n == 0 {
		return
	}
	for i, c := range o.counts {
		h.counts[i] += c
	}
	if h.n == 0 || o.lo < h.lo {
		h.lo = o.lo
	}
	h.hi = max(h.hi, o.hi)
	h.n += o.n
	h.sum += o.sum
}

func (h *histogram) mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return h.sum / time.Duration(h.n)
}

// quantile is the latency that the share q of all stays at or under, to 3 %.
func (h *histogram) quantile(q float64) time.Duration {
	want, seen := uint64(q*float64(h.n)), uint64(0)
	for i, c := range h.counts {
		if seen += uint64(c); c > 0 && seen > want {
			return min(max(floor(i), h.lo), h.hi)
		}
	}
	return h.hi
}
