// READs of one file under way, which a notice waits for.
//
// A READ that comes back short has the kernel make the file's size smaller, unless a notice came
// between request and reply. Then the page's rest is zeros that the file never had, up to the old
// size. The READ itself often finds the change that the notice is for. So a notice goes to the
// kernel after the replies to the READs that were under way when it became due. READs that begin
// meanwhile do not delay it.
//
// For a READ of one page the kernel wakes the program, which makes the size smaller itself. No call
// shows that, so such a READ counts for cutFor longer. A program that runs only after that may see
// zeros.

package fusefs

import "time"

const cutFor = time.Second

// reading counts READs in two groups: those that begin join the current one. node.mu guards it.
type reading struct {
	under   [2]int
	waiting [2]bool // a notice waits for the group
	current int
}

// begin counts a READ, and returns its group for end.
func (r *reading) begin() (group int) {
	r.under[r.current]++
	return r.current
}

// end counts a READ out that has been answered, and reports whether a notice is to be sent now.
func (r *reading) end(group int) (due bool) {
	if r.under[group]--; r.under[group] > 0 {
		return false
	}
	due, r.waiting[group] = r.waiting[group], false
	if r.waiting[1-group] {
		r.current = group
	}
	return due
}

// defers reports whether a notice that is due now is left to the end of the READs under way.
func (r *reading) defers() bool {
	group := r.current
	if r.under[group] == 0 {
		group = 1 - group
	}
	if r.under[group] == 0 {
		return false
	}
	r.waiting[group] = true
	if r.under[1-group] == 0 {
		r.current = 1 - group
	}
	return true
}

// beginRead and endRead stand around a READ of the kernel and the writing of its reply.
func (n *node) beginRead() (group int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reading.begin()
}

func (f *fileSystem) endRead(n *node, group int) {
	n.mu.Lock()
	due := n.reading.end(group)
	n.mu.Unlock()
	if due {
		f.notices.add(n, true)
	}
}

// isRead reports whether READs are under way.
func (n *node) isRead() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reading.under != [2]int{}
}

// defersNotice is reading.defers.
func (n *node) defersNotice() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reading.defers()
}
