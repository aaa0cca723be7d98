// A long batch answered in parts: what its handlers have posted so far leaves before all of them
// have run.

package iwarp

import (
	"sync/atomic"
	"time"
)

const (
	// partTime is for how long handlers post before that leaves. The peer looks for input for
	// longer before it sleeps (rnic/internal/look), and has the first replies to work on meanwhile:
	// two ends with a processor each, which wait for each other's whole batches, take turns, and
	// one of them always rests.
	partTime = 20 * time.Microsecond

	// partAlone is after how many batches in a row, with none of another stream of the process
	// between them, a stream is taken to be the only busy one. Beside others the processors have
	// enough to do, and a part is one more system call and wake-up.
	partAlone = 8
)

// The stream that had the latest batch of this process, by its number, and the highest number
// given.
var latestBatch, streamNumbers atomic.Uint64

// The parts of a stream's batches: when what handlers have posted leaves before the batch is done.
type parts struct {
	number uint64       // set once: of the stream
	alone  int          // batches in a row, at most partAlone; owned by who has the right to receive
	next   atomic.Int64 // when, in nanoseconds of clock; 0: not before all handlers have run
}

func (p *parts) init() { p.number = streamNumbers.Add(1) }

// begin is for a batch whose handlers are about to run.
func (p *parts) begin() {
	switch {
	case latestBatch.Load() != p.number:
		latestBatch.Store(p.number)
		p.alone = 0
	case p.alone < partAlone:
		p.alone++
	default:
		p.next.Store(clock() + int64(partTime))
	}
}

// end is for a batch whose handlers have run.
func (p *parts) end() {
	if p.next.Load() != 0 {
		p.next.Store(0)
	}
}

// due reports whether what has been posted is to leave now. Any goroutine that posts may ask, not
// the receive loop's alone; one of them is told so, and the time of the next part begins.
func (p *parts) due() bool {
	next := p.next.Load()
	if next == 0 {
		return false
	}
	now := clock()
	return now >= next && p.next.CompareAndSwap(next, now+int64(partTime))
}

var clockStart = time.Now()

// clock is nanoseconds since the process began.
func clock() int64 { return int64(time.Since(clockStart)) }
