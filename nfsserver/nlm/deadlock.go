// Deadlocks: owners waiting for one another, on one file or several.

package nlm

import (
	"slices"
	"sync"
)

// A waitGraph holds the waiting requests. Together with the files' locks they form a graph: an
// owner waits for the owners of conflicting locks. A request that would close a circle is answered
// NLM4_DEADLCK (RFC 1813 §6.1.4) and does not wait. Processes of one machine get EDEADLK from
// fcntl(2) likewise. Linux 6.1's server does the same; 6.12 lets both requests wait.
//
// Local programs take part in circles as far as the kernel lists their locks. The kernel does not
// notice a local program that closes a circle, because the server's locks belong to an open file
// description, which the kernel does not follow. The next client that retries then gets the error.
//
// An owner is a process on its client. Another thread of that process may release a lock while one
// thread waits; clients do not report this. fcntl(2) also treats such a process as waiting.
type waitGraph struct {
	mu    sync.Mutex // guards all below; and file.locks, which change under file.mu as well
	waits map[*owner][]*waiter
	files map[inode]*file // open files, by the inode the kernel lists them with
}

func (g *waitGraph) init() {
	g.waits, g.files = map[*owner][]*waiter{}, map[inode]*file{}
}

// maxLooks bounds the locks visited by one search, because other requests wait for the search's
// end. A circle beyond the bound stays undetected until a client gives up.
const maxLooks = 32 << 10

// wait adds a waiter and returns true, or returns false if the waiter closes a circle. If a waiter
// already added is now in a circle, wait removes it. p are the local programs to consider; nil:
// none.
func (g *waitGraph) wait(w *waiter, p *programs) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closes(w, p) {
		g.remove(w)
		return false
	}
	if !slices.Contains(g.waits[w.owner], w) {
		g.waits[w.owner] = append(g.waits[w.owner], w)
	}
	return true
}

// A step is one request on a search's path, by an owner (pid 0) or by a local program (nil owner).
type step struct {
	owner     *owner
	pid       int
	file      *file // nil: clients have no locks on the file
	inode     inode
	exclusive bool
	span
}

// stepOf copies the fields of w that a search needs, so the search does not need the mutex of w's
// file.
func stepOf(w *waiter) step {
	return step{owner: w.owner, file: w.file, inode: w.file.inode, exclusive: w.exclusive, span: w.span}
}

// A search looks for circles breadth-first, the shortest first. waitGraph.mu is held.
type search struct {
	graph    *waitGraph
	programs *programs
	from     *owner
	next     []step
	owners   map[*owner]bool // visited
	pids     map[int]bool
	looks    int // remaining
}

// closes reports whether w waits, directly or through others, for its own owner.
func (g *waitGraph) closes(w *waiter, p *programs) bool {
	if p == nil {
		p = &programs{}
	}
	s := search{graph: g, programs: p, from: w.owner, next: []step{stepOf(w)}, owners: map[*owner]bool{}, pids: map[int]bool{}, looks: maxLooks}
	for ; len(s.next) > 0 && s.looks > 0; s.next = s.next[1:] {
		if s.clients(&s.next[0]) {
			return true
		}
		s.others(s.next[0])
	}
	return false
}

// clients follows the client locks conflicting with a request. It reports whether one of them
// belongs to the owner the search began with.
func (s *search) clients(at *step) bool {
	if at.file == nil {
		return false
	}
	var found []*owner
	for i := range at.file.locks {
		h := &at.file.locks[i]
		if s.looks--; s.looks < 0 || h.start > at.end {
			break
		}
		if !h.conflicts(at.owner, at.span, at.exclusive) || s.owners[h.owner] {
			continue
		}
		if h.owner == s.from {
			return true
		}
		s.owners[h.owner] = true
		found = append(found, h.owner)
	}
	for _, o := range found { // append to next can move *at, so do not use at below
		for _, w := range s.graph.waits[o] {
			s.next = append(s.next, stepOf(w))
		}
	}
	return false
}

// others follows the conflicting locks of local programs.
func (s *search) others(at step) {
	if at.inode == (inode{}) {
		return
	}
	for _, h := range s.programs.held {
		if s.looks--; s.looks < 0 {
			return
		}
		if h.inode != at.inode || h.pid == at.pid || s.pids[h.pid] || !h.overlaps(at.span) || !h.exclusive && !at.exclusive {
			continue
		}
		s.pids[h.pid] = true
		for _, w := range s.programs.waits {
			if w.pid == h.pid {
				s.next = append(s.next, step{pid: w.pid, file: s.graph.files[w.inode], inode: w.inode, exclusive: w.exclusive, span: w.span})
			}
		}
	}
}

// end removes a waiter from the graph after its wait.
func (g *waitGraph) end(w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(w)
}

// remove does the work of end; mu is held.
func (g *waitGraph) remove(w *waiter) {
	left := slices.DeleteFunc(g.waits[w.owner], func(o *waiter) bool { return o == w })
	if len(left) == 0 {
		delete(g.waits, w.owner)
		return
	}
	g.waits[w.owner] = left
}

// change runs do on f's locks under mu, so no search reads the locks meanwhile. f.mu is held.
func (g *waitGraph) change(f *file, do func(*lockset)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do(&f.locks)
}

// open registers a file under its inode; the kernel lists no locks of a zero inode.
func (g *waitGraph) open(f *file, i inode) {
	if i == (inode{}) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	f.inode, g.files[i] = i, f
}

// shut undoes open.
func (g *waitGraph) shut(f *file) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.files[f.inode] == f {
		delete(g.files, f.inode)
	}
	f.inode = inode{}
}
