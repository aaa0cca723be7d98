// Large transfers in bursts, so that they do not stand before small calls.

package iwarp

import (
	"sync/atomic"
	"syscall"

	"github.com/nfsrdma/nfsrdma/rnic/internal/look"
)

// burstBytes is how much a goroutine sends or receives before it lets others of the machine run.
// The kernel takes the processor from a thread that has enough to do only when its time slice is
// over, on a usual one after four milliseconds, and all small calls of other connections and
// clients that have come meanwhile wait for that.
const burstBytes = 256 << 10

// A burst is what a goroutine has sent or received since it last let others run.
type burst struct{ n int }

// add counts n bytes, and lets others run when they are enough. The caller holds no lock: it may be
// away for some time.
func (b *burst) add(n int) {
	if b.n += n; b.n >= burstBytes {
		b.n = 0
		giveWay()
	}
}

// gaveFor is how many inputs of small calls there had been when a large transfer last let others
// run for their sake.
var gaveFor atomic.Uint64

// giveWayToCalls lets others run if there has been a small call since a large transfer of this
// process did: who gets the answer may be waiting for this processor, and so may be the next call,
// that is read before the next batch of the transfer is made and sent. Once is enough for both; who
// gives way more often gets the processor back later, and may have to answer himself.
func giveWayToCalls() {
	if n := look.Inputs(); n != gaveFor.Load() {
		gaveFor.Store(n)
		giveWay()
	}
}

// giveWay is a variable for tests, which write it before the first stream is made.
var giveWay = yield

// yield is sched_yield(2), which costs nothing to speak of where no other thread waits for this
// processor. Go's scheduler need not know.
func yield() { syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
