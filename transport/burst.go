// Large transfers in bursts, so that they do not stand before small calls.

package transport

import (
	"sync/atomic"
	"syscall"
)

// burstBytes is how much a goroutine sends or receives before it lets others of the machine run: the kernel takes the
// processor away only at the end of a time slice, of milliseconds, for which small calls of other connections would wait.
const burstBytes = 256 << 10

// A burst is what a goroutine has sent or received since it last let others run.
type burst struct{ n int }

// add counts n bytes, and lets others run when they are enough. The caller holds no lock that others wait for: in a splicer it is the one of
// the descriptor's writers, of whom there are no others.
func (b *burst) add(n int) {
	if b.n += n; b.n >= burstBytes {
		b.n = 0
		giveWay()
	}
}

// giveWay is sched_yield(2), which does nothing where no other thread waits for this processor; Go's scheduler
// need not know. It is a variable for tests, which write it before the first connection is made.
var giveWay = func() { syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }

// piecesAfter is how many pieces a large transfer moves after a small reply of this process, before it takes as much as
// there is in one system call again: the next call of who got that reply is likely to come before they have left.
const piecesAfter = 8

// smallReplies counts the small replies of this process.
var smallReplies atomic.Uint64

// pieces are how a large transfer is cut while there are small calls beside it. A kernel that does not preempt takes the processor from nobody inside
// of a system call; but a transfer that nobody waits for has no use for more system calls, and for more wake-ups of its peer.
type pieces struct {
	seen uint64 // of smallReplies
	left int    // pieces until it is no longer cut
}

// next is how many of n bytes are moved at once; cut: others are to have a turn after each burstBytes.
func (p *pieces) next(n int) (piece int, cut bool) {
	if now := smallReplies.Load(); now != p.seen {
		p.seen, p.left = now, piecesAfter
	}
	if p.left == 0 {
		return n, false
	}
	p.left--
	return min(n, burstBytes), true
}
