// The classes of call times: at each bound, and just below and above it, class agrees with a search
// through all bounds.

package program

import (
	"math"
	"testing"
	"time"
)

func TestClass(t *testing.T) {
	want := func(d time.Duration) int {
		for i, end := range durations {
			if d <= end {
				return i
			}
		}
		return len(durations)
	}
	times := []time.Duration{math.MinInt64, -1, 0, 1, time.Nanosecond, math.MaxInt64}
	for _, end := range durations {
		times = append(times, end-1, end, end+1)
	}
	for bit := range 63 {
		times = append(times, 1<<bit-1, 1<<bit, 1<<bit+1)
	}
	for _, d := range times {
		if got := class(d); got != want(d) {
			t.Errorf("%v: class %d, want %d", d, got, want(d))
		}
	}
}
