// A connection's gate limits its calls.

package transport

import "sync"

// A gate bounds one connection's calls. held counts calls from arrival until their reply has
// left, bytes their result buffers.
type gate struct {
	most      int
	mostBytes int64

	mu      sync.Mutex
	changed sync.Cond // signals that held decreased or the gate was shut
	held    int
	bytes   int64
	shut    bool
}

func (g *gate) init(most int, bytes int64) {
	g.most, g.mostBytes = most, bytes
	g.changed.L = &g.mu
}

// full reports whether no more calls may enter. The caller holds mu.
func (g *gate) full() bool { return g.held >= g.most || g.bytes > g.mostBytes }

// hold counts n bytes of result buffers, until the call leaves.
func (g *gate) hold(n int) {
	g.mu.Lock()
	g.bytes += int64(n)
	g.mu.Unlock()
}

// tryEnter counts one more call unless the gate is full.
func (g *gate) tryEnter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.full() {
		return false
	}
	g.held++
	return true
}

// enter waits until one more call may enter; it returns false if the gate is shut.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.full() && !g.shut {
		g.changed.Wait()
	}
	if g.shut {
		return false
	}
	g.held++
	return true
}

// only reports whether exactly one call is held.
func (g *gate) only() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held == 1
}

// leave ends one held call with n bytes of result buffers.
func (g *gate) leave(n int) {
	g.mu.Lock()
	full := g.full()
	g.held--
	g.bytes -= int64(n)
	if full || g.held == 0 {
		g.changed.Broadcast()
	}
	g.mu.Unlock()
}

// shutDown shuts the gate and releases all waiting callers.
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

// drain waits until no call is held or the gate is shut.
func (g *gate) drain() {
	g.mu.Lock()
	for g.held > 0 && !g.shut {
		g.changed.Wait()
	}
	g.mu.Unlock()
}
