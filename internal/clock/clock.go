// The clock for durations: one reading of the monotonic clock.

// Package clock measures durations. time.Now reads two clocks, these functions only the monotonic
// one.
package clock

import "time"

// start is the zero of the clock.
var start = time.Now()

// Elapsed is the time since the program's start.
func Elapsed() time.Duration { return time.Since(start) }

// Now is the current time for measuring durations. Its wall clock counts on from the program's
// start, and ignores later corrections.
func Now() time.Time { return At(Elapsed()) }

// At is the Now at which Elapsed returned elapsed.
func At(elapsed time.Duration) time.Time { return start.Add(elapsed) }
