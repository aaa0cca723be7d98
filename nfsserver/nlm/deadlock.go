// Deadlocks: owners that wait for one another, on one file or several.

package nlm

import (
	"slices"
	"sync"
)

// A waitGraph is who waits. Together with the locks of files it says for whom: an owner waits for each owner of a lock that is in
// the way of its request. A request that would close a circle of these is answered NLM4_DEADLCK (RFC 1813 §6.1.4) and does not wait,
// as fcntl(2) fails with EDEADLK between processes of one machine, and as Linux's server does.
//
// An owner is a process for its client, so one of its threads that does not wait may yet release what others
// wait for; clients do not say so, and fcntl(2) takes such a process for one that waits, too.
type waitGraph struct {
	mu    sync.Mutex // guards all below; and file.locks, which change under file.mu as well
	waits map[*owner][]*waiter
}

// maxLooks bounds how many locks one search looks at, as others' requests wait for its end. A circle that it does not find is one that
// nobody is told of, until a client gives up.
const maxLooks = 32 << 10

// wait enters a waiter unless it would close a circle, and reports whether it has. One that is there is taken out where by now
// it is in a circle.
func (g *waitGraph) wait(w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closes(w) {
		g.remove(w)
		return false
	}
	if !slices.Contains(g.waits[w.owner], w) {
		g.waits[w.owner] = append(g.waits[w.owner], w)
	}
	return true
}

// closes reports whether w waits, in the end, for its own owner: the nearest circles are found first. mu is held.
func (g *waitGraph) closes(w *waiter) bool {
	looks, seen := maxLooks, map[*owner]bool{}
	for next := []*waiter{w}; len(next) > 0; next = next[1:] {
		at := next[0]
		for i := range at.file.locks {
			h := &at.file.locks[i]
			if h.start > at.end {
				break
			}
			if looks--; looks < 0 {
				return false
			}
			if seen[h.owner] || !h.inTheWay(at.owner, at.span, at.exclusive) {
				continue
			}
			if h.owner == w.owner {
				return true
			}
			seen[h.owner] = true
			next = append(next, g.waits[h.owner]...)
		}
	}
	return false
}

// end takes out a waiter that does not wait any more.
func (g *waitGraph) end(w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(w)
}

// remove is end with mu held.
func (g *waitGraph) remove(w *waiter) {
	left := slices.DeleteFunc(g.waits[w.owner], func(o *waiter) bool { return o == w })
	if len(left) == 0 {
		delete(g.waits, w.owner)
		return
	}
	g.waits[w.owner] = left
}

// publish changes the locks of a file, which is locked, for those who look at them from elsewhere.
func (g *waitGraph) publish(f *file, next lockset) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f.locks = next
}
