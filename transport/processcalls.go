// What the calls of this process have been: for who gives it processors.

package transport

import "sync/atomic"

// largeCall is how long a message is, at the least, that makes a call a large one: what moves it
// counts for more than what a call costs.
const largeCall = 32 << 10

var processCalls struct {
	all   atomic.Uint64
	_     [64]byte // of the cache, since replies leave from other processors
	large atomic.Uint64
}

// ProcessCalls is how many calls this process has made and been asked for, as client and as server,
// and how many of them had a call or a reply of 32 KiB and more: those of a stream. It is cheap
// enough to be asked for a hundred times a second.
func ProcessCalls() (calls, large uint64) { return processCalls.all.Load(), processCalls.large.Load() }

// countMessage counts a message of n bytes, if it is a large one.
func countMessage(n int) {
	if n >= largeCall {
		processCalls.large.Add(1)
	}
}
