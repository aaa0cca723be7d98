// Yielding the processor: at once, and after many bytes.

package wait

import (
	"sync/atomic"
	"syscall"
)

// Yield calls sched_yield(2): other threads that wait for this processor run first. Without such
// threads it does nothing. The call bypasses Go's scheduler.
func Yield() { syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }

// BurstBytes is the number of bytes that a goroutine receives before it yields. 256 KiB:
// the kernel preempts only at the end of a time slice, of milliseconds, and small calls of other
// connections would wait until then.
const BurstBytes = 256 << 10

// A Burst counts the bytes that a goroutine has received since it last yielded.
type Burst struct {
	n      int
	yields atomic.Uint64
}

// Add counts n bytes, and yields after [BurstBytes]. The caller holds no lock, because a yield may
// take some time.
func (b *Burst) Add(n int) {
	if b.n += n; b.n >= BurstBytes {
		b.n = 0
		b.yields.Add(1)
		Yield()
	}
}

// Yields returns how often the Burst has yielded. Any goroutine may call it.
func (b *Burst) Yields() uint64 { return b.yields.Load() }
