// A measurement's loop: one goroutine per call in flight, no allocation.

package bench

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

const (
	seqBlock  = 1 << 20
	randBlock = patternBlock
)

// A slot belongs to one call in flight: its buffers and counters.
type slot struct {
	in, out []byte // read buffer; write buffer, filled with the pattern
	rng     uint64
	h       Histogram
	bytes   int64
	err     error

	page    nfsclient.DirPage     // position in a listing
	entries int                   // entries listed so far
	count   func(*nfs3.EntryPlus) // increments entries
}

func newSlot(p *pattern) *slot {
	s := &slot{in: make([]byte, seqBlock), out: make([]byte, seqBlock)}
	p.fill(s.out, 0)
	return s
}

// random returns a number below n (xorshift64*).
func (s *slot) random(n int64) int64 {
	s.rng ^= s.rng >> 12
	s.rng ^= s.rng << 25
	s.rng ^= s.rng >> 27
	return int64((s.rng * 0x2545f4914f6cdd1d) >> 1 % uint64(n))
}

// An op makes the i-th call of a test and returns the number of bytes moved.
type op func(s *slot, i int64) (int, error)

// A loop runs for duration, and makes at least one call. If count is not 0, it makes count calls
// instead.
type loop struct {
	slots    []*slot
	duration time.Duration
	count    int64
	op       op
	end      func() error // runs once after the last call; its time counts too
}

// A measured is a loop's result.
type measured struct {
	h       Histogram
	bytes   int64
	elapsed time.Duration
	allocs  float64 // this process's allocations per call
	cpu     cpuTime
}

// run runs the loop until the first error or the end of ctx. The calls have a context that cannot
// end, because that is cheaper.
func (l *loop) run(ctx context.Context) (*measured, error) {
	var next atomic.Int64
	var stop atomic.Bool
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	var wg sync.WaitGroup
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for i, s := range l.slots {
		s.h, s.bytes, s.err, s.rng = Histogram{}, 0, nil, uint64(i+1)*0x9e3779b97f4a7c15
		wg.Go(func() {
			if s.err = l.slot(ctx, s, start, &next, &stop); s.err != nil {
				stop.Store(true)
			}
		})
	}
	wg.Wait()
	var err error
	if l.end != nil {
		err = l.end()
	}
	m := &measured{elapsed: time.Since(start)}
	runtime.ReadMemStats(&after)
	for _, s := range l.slots {
		m.h.merge(&s.h)
		m.bytes += s.bytes
		if err == nil {
			err = s.err
		}
	}
	if m.h.N > 0 {
		m.allocs = float64(after.Mallocs-before.Mallocs) / float64(m.h.N)
	}
	return m, err
}

func (l *loop) slot(ctx context.Context, s *slot, start time.Time, next *atomic.Int64, stop *atomic.Bool) error {
	now := time.Now()
	for !stop.Load() {
		i := next.Add(1) - 1
		if l.count > 0 && i >= l.count || l.count == 0 && i > 0 && now.Sub(start) >= l.duration {
			return nil
		}
		n, err := l.op(s, i)
		if err != nil {
			return err
		}
		s.bytes += int64(n)
		end := time.Now()
		s.h.Add(end.Sub(now))
		now = end
	}
	return ctx.Err()
}
