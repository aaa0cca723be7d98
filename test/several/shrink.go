// Reduces a failing schedule.

package several

import (
	"errors"
	"slices"
)

// tries is the number of runs after which a shorter schedule counts as passing, because some
// failures depend on time.
const tries = 2

// mostRuns limits the runs of one search.
const mostRuns = 400

// Shrink removes steps from a failing schedule while the other steps still fail.
func (w *World) Shrink(f *Failure) *Failure {
	runs := 0
	again := func(steps []Step) *Failure {
		for range tries {
			runs++
			_, err := w.Run(steps)
			var shorter *Failure
			if errors.As(err, &shorter) {
				return shorter
			}
		}
		return nil
	}
	for size := max(len(f.Steps)/2, 1); size > 0; size /= 2 {
		for at := len(f.Steps) - 1; at >= 0 && runs < mostRuns; at -= size {
			if at >= len(f.Steps) { // the failing schedule has become shorter
				at = len(f.Steps) - 1
			}
			from := max(at-size+1, 0)
			if shorter := again(slices.Delete(slices.Clone(f.Steps), from, at+1)); shorter != nil && len(shorter.Steps) < len(f.Steps) {
				f = shorter
			}
		}
	}
	return f
}
