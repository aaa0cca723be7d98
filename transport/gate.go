// The gate of a connection: how many of its calls are held, and how many run at once.

package transport

import "sync"

// A gate bounds the calls of one connection. held counts calls from their
// arrival until their reply has left; running those that have a worker.
// Calls beyond the workers wait here, in order.
type gate struct {
	workers, most int

	mu         sync.Mutex
	changed    sync.Cond // held went down, or the gate was shut
	running    int
	held       int
	shut       bool
	head, tail *Call
}

func (g *gate) init(workers, most int) {
	g.workers, g.most = workers, most
	g.changed.L = &g.mu
}

// tryEnter counts one more call unless there are too many already.
func (g *gate) tryEnter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held >= g.most {
		return false
	}
	g.held++
	return true
}

// enter waits until one more call may be held; false when the gate was shut.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.held >= g.most && !g.shut {
		g.changed.Wait()
	}
	if g.shut {
		return false
	}
	g.held++
	return true
}

// leave ends one held call.
func (g *gate) leave() {
	g.mu.Lock()
	g.held--
	if g.held == g.most-1 || g.held == 0 {
		g.changed.Broadcast()
	}
	g.mu.Unlock()
}

// shutDown lets no call wait any more.
func (g *gate) shutDown() {
	g.mu.Lock()
	g.shut = true
	g.changed.Broadcast()
	g.mu.Unlock()
}

// waitIdle waits until no call is held.
func (g *gate) waitIdle() {
	g.mu.Lock()
	for g.held > 0 {
		g.changed.Wait()
	}
	g.mu.Unlock()
}

// admit tells whether c may have a worker now; else it is queued.
func (g *gate) admit(c *Call) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running < g.workers {
		g.running++
		return true
	}
	if g.tail == nil {
		g.head = c
	} else {
		g.tail.next = c
	}
	g.tail = c
	return false
}

// done ends a running call; the next one that waited takes over its worker.
func (g *gate) done() *Call {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.head
	if c == nil {
		g.running--
		return nil
	}
	if g.head = c.next; g.head == nil {
		g.tail = nil
	}
	c.next = nil
	return c
}
