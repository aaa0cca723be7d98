// Large transfers in bursts, so that they do not stand before small calls.

package iwarp

import "syscall"

// burstBytes is how much a goroutine sends or receives before it lets others of the machine run. The kernel takes the
// processor from a thread that has enough to do only when its time slice is over, on a usual one after four milliseconds, and all
// small calls of other connections and clients that have come meanwhile wait for that.
const burstBytes = 256 << 10

// A burst is what a goroutine has sent or received since it last let others run.
type burst struct{ n int }

// add counts n bytes, and lets others run when they are enough. The caller holds no lock: it may be away for some time.
func (b *burst) add(n int) {
	if b.n += n; b.n >= burstBytes {
		b.n = 0
		giveWay()
	}
}

// giveWay is a variable for tests, which write it before the first stream is made.
var giveWay = yield

// yield is sched_yield(2), which costs nothing to speak of where no other thread waits for this processor. Go's scheduler need not know.
func yield() { syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
