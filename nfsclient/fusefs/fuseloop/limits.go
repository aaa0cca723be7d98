// The loop's constants: sizes of buffers, bounds, and times.

package fuseloop

import "time"

// The buffer sizes except the largest, which fits the kernel's largest request. Most requests carry
// a name or a page, and so do most replies.
const (
	smallBuffer  = 8 << 10
	middleBuffer = 132 << 10
	slack        = 4 << 10 // room for headers in the largest buffer, in bytes
)

// forgetsMost bounds the messages without a reply that the reader runs before a request it has
// read.
const forgetsMost = 4

// idleMost bounds the idle workers kept. Busy workers are unbounded, one for each request.
const idleMost = 64

const (
	// spinTime bounds spinning. It covers a program's time between two calls, and is about the cost
	// of parking and waking up.
	spinTime = 50 * time.Microsecond

	// preemptedTime is the length of a preemption from which spinning does not pay: a parked reader
	// would have woken up sooner.
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
