// Opens and removals for one file: decides their order before the call to the server.
//
// An open file keeps a hidden name when it is removed (sillyrename.go). An open counts from the
// kernel's request, not from the server's answer, and a removal decides under the same lock. So a
// file is in one of these states, made of opens, the count of removals in flight and silly:
//
//	          removal               answer: its last name
//	closed ─────────────▶ removing ─────────────────────▶ gone
//	 │  ▲                  ▲  │ answer: no, or it has other names
//	 │  └──────────────────│──┘
//	 │ open                │ last close
//	 ▼        removal      │
//	open ──────────────▶ hidden
//
// An open that finds the file closed or open is counted, and the next removal hides the file. An
// open that finds it removing waits for the answer. If the file is gone, the server answers ESTALE,
// and the kernel walks the path again. While the file gets its hidden name, it stays open to all
// callers.

package fusefs

import (
	"context"
	"slices"
)

// open counts an open of n. During a removal of n it counts none, and returns a channel that closes
// after the removal.
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

// close takes back an open. If that was the last open and the file's only name is hidden, close
// returns this name; the file is then removing.
func (t *table) close(n *node) (hidden dirName, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.opens--; n.opens == 0 && n.silly.Load() {
		n.silly.Store(false)
		for _, p := range n.dirNames {
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

// claim starts removing a name unless its node is keep. A closed file is removing until endRemoval.
// claim returns a nil node for an unknown name or a directory: an open directory gets no hidden
// name, as with the kernel's client.
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

// beginRemoval starts a removal. The caller holds table.mu.
func (n *node) beginRemoval() {
	if n.removals++; n.removals == 1 {
		n.removed = make(chan struct{})
	}
}

// endRemoval ends a removal, successful or not. n may be nil.
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

// hideOpen makes the last close of n remove its hidden name. It returns false if n is no longer
// open; n is then removing.
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

// isOpenHidden reports whether the name is the hidden one of a file open here.
func (t *table) isOpenHidden(dir *node, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := dir.children[name].n
	return n != nil && n.opens > 0 && n.silly.Load() && slices.Contains(n.dirNames, dirName{dir, name}) && isHidden(name)
}
