// Timers: which QP to check next, and when.

package roce

import (
	"container/heap"
	"math"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
)

// timers is a heap of endpoints by time of their next check. If a deadline moves later, as after
// each acknowledge, the heap stays unchanged until the old deadline expires, so steady traffic
// seldom touches the heap.
type timers struct {
	mu   sync.Mutex
	heap deadlines // guarded by mu
}

type deadlines []*endpoint

func (h deadlines) Len() int           { return len(h) }
func (h deadlines) Less(i, j int) bool { return h[i].nextCheck < h[j].nextCheck }
func (h deadlines) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i, j
}
func (h *deadlines) Push(x any) {
	e := x.(*endpoint)
	e.slot = len(*h)
	*h = append(*h, e)
}
func (h *deadlines) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.slot = -1
	return e
}

// arm schedules an endpoint's check for the time at, or earlier.
func (x *timers) arm(e *endpoint, at core.Instant) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case e.nextCheck == math.MinInt64: // forgotten
	case e.slot < 0:
		e.nextCheck = at
		heap.Push(&x.heap, e)
	case at < e.nextCheck:
		e.nextCheck = at
		heap.Fix(&x.heap, e.slot)
	}
}

// forget removes an endpoint permanently.
func (x *timers) forget(e *endpoint) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e.slot >= 0 {
		heap.Remove(&x.heap, e.slot)
	}
	e.nextCheck = math.MinInt64 // makes arm ignore this endpoint
}

// due removes and returns an endpoint with an expired timer, or nil.
func (x *timers) due(at core.Instant) *endpoint {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.heap) == 0 || x.heap[0].nextCheck > at {
		return nil
	}
	return heap.Pop(&x.heap).(*endpoint)
}

// next returns the time for the next run.
func (x *timers) next() (at core.Instant, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.heap) == 0 {
		return 0, false
	}
	return x.heap[0].nextCheck, true
}

// run checks all endpoints with an expired timer.
func (x *timers) run(t *port, at core.Instant) {
	for e := x.due(at); e != nil; e = x.due(at) {
		b := e.bound.Load()
		if b == nil || b.qp.Ended() != nil {
			continue
		}
		b.qp.Tick(at)
		e.doubt(b.qp.Overdue())
		quiet := at - core.Instant(e.heard.Load())
		if e.cfg.Service == rnic.RC && quiet >= keepalive {
			b.qp.Probe()
			quiet = 0
		}
		t.tx.kick(e)
		t.afterChange(e)
		if e.cfg.Service == rnic.RC {
			x.arm(e, at+keepalive-quiet)
		}
	}
}

// wakeBefore wakes the service loop if it sleeps past at.
func (t *port) wakeBefore(at core.Instant) {
	if until := t.tick.Load(); until != 0 && int64(at) < until {
		t.wakeUp()
	}
}
