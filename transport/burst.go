// Large transfers in bursts, so that they do not stand before small calls.

package transport

import "syscall"

// burstBytes is the number of bytes that a goroutine receives before it yields. The kernel preempts
// only at the end of a time slice, of milliseconds, and small calls of other connections would wait
// for that.
const burstBytes = 256 << 10

// A burst counts the bytes that a goroutine has received since it last yielded.
type burst struct{ n int }

// add counts n bytes, and yields after burstBytes. The caller holds no lock that others wait for.
func (b *burst) add(n int) {
	if b.n += n; b.n >= burstBytes {
		b.n = 0
		giveWay()
	}
}

// giveWay is sched_yield(2), which does nothing where no other thread waits for this processor;
// Go's scheduler need not know. It is a variable for tests, which write it before the first
// connection is made.
var giveWay = func() { syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
