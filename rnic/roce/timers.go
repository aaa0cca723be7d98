// The timers: which QP is to be looked at next, and when.

package roce

import (
	"container/heap"
	"math"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
)

// keepalive is how long a peer is silent before it is asked whether it is still there.
const keepalive = core.Instant(15 * time.Second)

// doubtAfter is how many answers in a row are overdue when a peer is asked whether it knows the
// connection: after half a second.
const doubtAfter = 3

// timers is a heap of endpoints by the time at which to look at them. A deadline that moves away,
// as it does with each acknowledge, is not moved here: it is found out when the time has come, so
// steady traffic touches the heap seldom.
type timers struct {
	mu   sync.Mutex
	heap deadlines // guarded by mu
}

type deadlines []*endpoint

func (h deadlines) Len() int           { return len(h) }
func (h deadlines) Less(i, j int) bool { return h[i].check < h[j].check }
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

// arm has an endpoint looked at by the time at, or earlier.
func (x *timers) arm(e *endpoint, at core.Instant) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case e.check == math.MinInt64: // forgotten
	case e.slot < 0:
		e.check = at
		heap.Push(&x.heap, e)
	case at < e.check:
		e.check = at
		heap.Fix(&x.heap, e.slot)
	}
}

// forget takes an endpoint out.
func (x *timers) forget(e *endpoint) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e.slot >= 0 {
		heap.Remove(&x.heap, e.slot)
	}
	e.check = math.MinInt64 // arm leaves it alone from now on
}

// due takes out an endpoint whose time has come, nil if there is none.
func (x *timers) due(at core.Instant) *endpoint {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.heap) == 0 || x.heap[0].check > at {
		return nil
	}
	return heap.Pop(&x.heap).(*endpoint)
}

// next is when run has something to do.
func (x *timers) next() (at core.Instant, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.heap) == 0 {
		return 0, false
	}
	return x.heap[0].check, true
}

// run looks at all endpoints whose time has come.
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
		t.look(e)
		if e.cfg.Service == rnic.RC {
			x.arm(e, at+keepalive-quiet)
		}
	}
}

// hurry wakes the service loop if it sleeps longer than until at.
func (t *port) hurry(at core.Instant) {
	if until := t.tick.Load(); until != 0 && int64(at) < until {
		t.wakeUp()
	}
}
