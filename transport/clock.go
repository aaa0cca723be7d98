// The clock of calls: one reading of the monotonic clock where time.Now takes two clocks.

package transport

import "time"

var epoch = time.Now()

// now is the present for measuring how much time passes; its wall clock is that of the program's
// start, carried on.
func now() time.Time { return epoch.Add(time.Since(epoch)) }
