// READs of one file in flight, which delay a notice.
//
// A READ with a short reply makes the kernel shrink the file's size, unless a notice came between
// request and reply. After a notice, the rest of the page, up to the old size, shows zeros that the
// file lacks. Often the READ itself finds the notice's change. So a notice waits for the replies to
// all READs in flight when it became due. Later READs do not delay the notice.
//
// After a READ of one page the kernel wakes the program, which shrinks the size itself. No request
// shows when, so such a READ counts for cutFor longer. A program delayed even longer may see zeros.

package fusefs

import "time"

// cutFor covers a program's delay between its wakeup and the change of size.
const cutFor = time.Second

// readGroups counts READs in two groups: new READs join the current one. node.mu guards it.
type readGroups struct {
	inFlight [2]int
	waiting  [2]bool // a notice waits for the group
	current  int
}

// begin counts a READ, and returns its group for end.
func (r *readGroups) begin() (group int) {
	r.inFlight[r.current]++
	return r.current
}

// end ends an answered READ and reports whether to send a notice now.
func (r *readGroups) end(group int) (due bool) {
	if r.inFlight[group]--; r.inFlight[group] > 0 {
		return false
	}
	due, r.waiting[group] = r.waiting[group], false
	if r.waiting[1-group] {
		r.current = group
	}
	return due
}

// defers reports whether a notice due now has to wait for READs in flight.
func (r *readGroups) defers() bool {
	group := r.current
	if r.inFlight[group] == 0 {
		group = 1 - group
	}
	if r.inFlight[group] == 0 {
		return false
	}
	r.waiting[group] = true
	if r.inFlight[1-group] == 0 {
		r.current = 1 - group
	}
	return true
}

// beginRead and endRead enclose a READ of the kernel including the reply.
func (n *node) beginRead() (group int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reads.begin()
}

func (f *fileSystem) endRead(n *node, group int) {
	n.mu.Lock()
	due := n.reads.end(group)
	n.mu.Unlock()
	if due {
		f.notices.add(n, true)
	}
}

// isRead reports whether READs are in flight.
func (n *node) isRead() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reads.inFlight != [2]int{}
}

// defersNotice is readGroups.defers for n, under n.mu.
func (n *node) defersNotice() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reads.defers()
}
