// Small work requests that are kept for a moment, so that several share a system call and a TCP segment.

package iwarp

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// keepTime bounds how long work is kept where nobody asks for completions.
const keepTime = 200 * time.Microsecond

// A gather is the clock of what is kept. It runs on while there is something, so that it is not set anew for each batch.
type gather struct {
	armed atomic.Bool
	s     *stream

	mu    sync.Mutex  // a clock that was just made can ring, and be armed by others, before its maker has it here
	clock *time.Timer // guarded by mu; made by the first that arms it
}

func (g *gather) init(s *stream) { g.s = s }

// arm has what is kept now sent by the transmit loop in a while, if nobody else has done so before.
func (g *gather) arm() {
	if !g.armed.CompareAndSwap(false, true) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.clock == nil {
		g.clock = time.AfterFunc(keepTime, g.ring)
	} else {
		g.clock.Reset(keepTime)
	}
}

func (g *gather) ring() {
	g.armed.Store(false)
	if g.s.work.Release() {
		g.s.tx.handOver()
	}
}

var _ rnic.Gatherer = (*stream)(nil)

// keep leaves posted work to whoever asks for completions next, or the clock. False: the caller has the turn, and sends it.
func (s *stream) keep() bool {
	if s.q.Gather() {
		s.gather.arm()
		return true
	}
	return !s.work.Release()
}

// SendGathered is as rnic.Gatherer has it.
func (s *stream) SendGathered() {
	if s.work.Release() {
		s.tx.runInline(inlineBytes)
	}
}
