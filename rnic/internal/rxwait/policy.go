// Constants for waits, and the reason for each value.

package rxwait

import "time"

// Spinning.
const (
	// spinTime is how long a receiver spins. 50 µs: several times a peer's work on one small call,
	// and about the cost to put a thread to sleep and wake it.
	spinTime = 50 * time.Microsecond

	// preemptedTime is the shortest time between two reads that counts as a preemption by another
	// thread. 20 µs: far more than a read of an empty socket takes, and less than a time slice.
	preemptedTime = 20 * time.Microsecond

	// passCost is a preemption's price for each later input. 8 µs: a spin's gain on busy
	// processors, where the alternative is to sleep, wake up and wait for a processor.
	passCost = 8 * time.Microsecond

	// spinGain is the credit for a spin with input. 5 µs: the least time to sleep and wake up. The
	// credit pays for later preemptions.
	spinGain = 5 * time.Microsecond

	// creditMax is the largest credit. 4 ms: a kernel time slice.
	creditMax = 4 * time.Millisecond

	// preemptionMax is the longest preemption that counts. 100 ms: longer ones are stops of the
	// process or of the machine, which spinning did not cause.
	preemptionMax = 100 * time.Millisecond

	// yieldPeriod is how long ready goroutines wait while spins succeed one after another. 200 µs:
	// a yield makes the scheduler wake a thread, so a yield for each input would cost more than it
	// gains.
	yieldPeriod = 200 * time.Microsecond

	// procsPeriod is how long a GOMAXPROCS value is used. 1 ms: reading it takes the scheduler's
	// lock.
	procsPeriod = time.Millisecond
)

// Blocking the thread.
const (
	// blockMax is how long a thread blocks, and keeps a processor of Go's scheduler. 5 ms: longer
	// than a kernel tick (4 ms at 250 Hz), because a timer before the next tick has to be set in
	// the hardware, which costs a virtual machine 8 µs.
	blockMax = 5 * time.Millisecond

	// blockWorth is how soon input has to come for a block to pay. 250 µs: more than most programs
	// and servers work between two calls.
	blockWorth = 250 * time.Microsecond

	// blockWorthBeside is blockWorth next to large transfers. 100 µs: the work between two calls in
	// a client on the same machine, once it has a processor.
	blockWorthBeside = 100 * time.Microsecond

	// yieldSpinTime is how long a receiver yields and reads before it blocks. 100 µs: a server's
	// work on most calls that change a name, and a program's between two such calls.
	yieldSpinTime = 100 * time.Microsecond

	// yieldPreempted is the shortest yield on a busy processor. 500 µs: a blocked thread would have
	// been woken sooner.
	yieldPreempted = 500 * time.Microsecond
)

// Masking input events of Go's network poller.
const (
	// maskAfter is the number of blocks with input before the poller's entry is looked for. 16:
	// reading the entries takes as long as several blocks save. With more than 16 descriptors in
	// the poller, their number is used instead, because the kernel writes a line for each.
	maskAfter = 16

	// epollSearched bounds the descriptors that are searched for the poller's epoll instance. 256:
	// the instance is made with the first descriptor of the poller, so its number is low.
	epollSearched = 256
)
