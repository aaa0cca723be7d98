// A long batch answered in two parts: the first replies leave before all handlers have run.

package iwarp

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/internal/tally"
)

// An earlyFlush makes replies leave before the batch is done, at most once in a batch. Each further
// part would cost a system call, and might wake the peer again.
type earlyFlush struct {
	latest *atomic.Pointer[earlyFlush] // set once; the earlyFlush of the device's latest batch
	row    lead.Row                    // consecutive batches, with no other stream's between them
	next   atomic.Int64                // when posted work may leave, in clock's ns; 0: after all handlers have run

	tally tally.Counter // won: posted work could leave
}

// begin starts a batch: its handlers are about to run. With other active streams on the device a
// batch leaves whole: the processors are busy anyway, and a part costs one more system call.
func (p *earlyFlush) begin() {
	others := p.latest.Load() != p
	if others {
		p.latest.Store(p)
	}
	if p.row.Count(others); p.row.Alone() {
		p.next.Store(clock() + int64(earlyFlushTime))
	}
}

// end ends a batch: its handlers have run.
func (p *earlyFlush) end() {
	if p.next.Load() != 0 {
		p.next.Store(0)
	}
}

// due reports whether posted work is to leave now, once for a batch. Any posting goroutine may call
// it, not only the receive loop's.
func (p *earlyFlush) due() bool {
	next := p.next.Load()
	return next != 0 && clock() >= next && p.next.CompareAndSwap(next, 0)
}

var clockStart = time.Now()

// clock returns the nanoseconds since the process began.
func clock() int64 { return int64(time.Since(clockStart)) }
