// Opens and removals of one file: which of the two comes first is decided here, before the server is asked.
//
// A file that is removed while open keeps a hidden name (silly.go). An open counts from the moment when the kernel asks
// for it, not from the server's answer, and a removal decides under the same lock. So a file is in one of these states,
// which opens, the count of removals under way and silly make up:
//
//	          removal               answer: its last name
//	closed ─────────────▶ removing ─────────────────────▶ gone
//	 │  ▲                  ▲  │ answer: no, or it has other names
//	 │  └──────────────────│──┘
//	 │ open                │ last close
//	 ▼        removal      │
//	open ──────────────▶ hidden
//
// An open that finds the file closed or open is counted, and the removal that comes next hides the file. One that finds it
// removing waits for the answer: of a file that is gone the server says so then (ESTALE), and the kernel
// walks the path again. While the file gets its hidden name it stays open to all who ask.

package fusefs

import (
	"context"
	"slices"
)

// open counts an open of n. While n is being removed it counts nothing, and returns a channel that is closed after that.
func (t *table) open(n *node) (removal <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.removals > 0 {
		return n.removed
	}
	n.opens++
	return nil
}

// openFile is open for callers that can wait.
func (t *table) openFile(ctx context.Context, n *node) error {
	for removal := t.open(n); removal != nil; removal = t.open(n) {
		select {
		case <-removal:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// close takes an open back. With the last one of a file whose only name is a hidden one
// it returns that: the file is removing then.
func (t *table) close(n *node) (hidden place, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.opens--; n.opens == 0 && n.silly.Load() {
		n.silly.Store(false)
		for _, p := range n.places {
			if isHidden(p.name) {
				hidden, ok = p, true
			}
		}
	}
	if ok {
		n.beginRemoval()
	}
	t.drop(n)
	return hidden, ok
}

// claim is the start of a removal of what has the name, and is not keep: a file is open, or removing until
// endRemoval is called. The node is nil where there is none, or it is a directory: those are removed in any
// case, as by the kernel's client.
func (t *table) claim(dir *node, name string, keep *node) (n *node, open bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = dir.children[name].n
	if n == nil || n == keep || n.isDir() {
		return nil, false
	}
	if n.opens > 0 {
		return n, true
	}
	n.beginRemoval()
	return n, false
}

// beginRemoval is for holders of table.mu.
func (n *node) beginRemoval() {
	if n.removals++; n.removals == 1 {
		n.removed = make(chan struct{})
	}
}

// endRemoval is the end of a removal, however it ended. n may be nil.
func (t *table) endRemoval(n *node) {
	if n == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.removals--; n.removals == 0 {
		close(n.removed)
		n.removed = nil
	}
	t.drop(n)
}

// hideOpen has the last close of n remove its hidden name. It reports false for one that is not open any more,
// which is removing then.
func (t *table) hideOpen(n *node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.opens == 0 {
		n.beginRemoval()
		return false
	}
	n.silly.Store(true)
	return true
}

// holdsHidden reports whether the name is a hidden one of a file that is open here.
func (t *table) holdsHidden(dir *node, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := dir.children[name].n
	return n != nil && n.opens > 0 && n.silly.Load() && slices.Contains(n.places, place{dir, name}) && isHidden(name)
}
