// The clock for durations: one reading of the monotonic clock.

// Package clock measures durations. time.Now reads two clocks, these functions only the monotonic
// clock.
package clock

import "time"

// start is the time at which Elapsed is zero.
var start = time.Now()

// Elapsed returns the time since the program's start.
func Elapsed() time.Duration { return time.Since(start) }

// Now returns the current time for measuring durations. The result's wall-clock time counts on from
// the program's start, and ignores later corrections.
func Now() time.Time { return At(Elapsed()) }

// At returns the value of Now when Elapsed returned elapsed.
func At(elapsed time.Duration) time.Time { return start.Add(elapsed) }
