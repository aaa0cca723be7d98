// The loop's constants: sizes of buffers, bounds, and times.

package fuseloop

import "time"

// The buffer sizes except the largest, which fits the kernel's largest request. Most requests carry
// a name or a page, and so do most replies.
const (
	smallBuffer  = 8 << 10
	middleBuffer = 132 << 10
	slack        = 4 << 10 // for headers, in the largest
)

// forgetsMost bounds the messages without a reply that the reader runs before a request it has
// read.
const forgetsMost = 4

// idleMost bounds the idle workers kept. Busy workers are unbounded, one for each request.
const idleMost = 64

const (
	// spinTime bounds spinning: the time of a program between two calls, and about the cost of
	// parking and waking up.
	spinTime = 50 * time.Microsecond

	// preemptedTime is a preemption too long for one call: a parked reader would have woken up
	// sooner.
	preemptedTime = 500 * time.Microsecond
)

// endTick is the pause between attempts to interrupt requests after the connection is gone.
const endTick = 10 * time.Millisecond

// Unmount tries unmountTries times. The first pause is unmountPause, each later one twice as long
// plus unmountPause.
const (
	unmountTries = 5
	unmountPause = 5 * time.Millisecond
)
