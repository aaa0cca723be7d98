// Small work requests that are kept for a moment, so that several share a system call and a TCP
// segment.

package iwarp

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// keepTime is between two looks of the clock at what is kept. Work that is there at both is of a
// program that does not ask for completions: so it is kept for twice as long at most. Each look
// costs a wake-up of a thread, and what is sent by it another one.
const keepTime = time.Millisecond

// A gather is the clock of what is kept. It runs on while there is something, so that it is not set
// anew for each batch.
type gather struct {
	armed atomic.Bool
	seen  atomic.Uint32 // group of work that the last look has found
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
	group, any := g.s.work.Kept()
	switch {
	case !any: // whoever keeps something from now on finds the clock not armed
	case g.seen.Swap(group) != group:
		g.arm()
	case g.s.work.Release():
		g.s.tx.handOver()
	}
}

var _ rnic.Gatherer = (*stream)(nil)

// keep leaves posted work to whoever asks for completions next, or the clock. False: the caller has
// the turn, and sends it.
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
