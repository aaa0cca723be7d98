// Deadlocks: owners that wait for one another, on one file or several.

package nlm

import (
	"slices"
	"sync"
)

// A waitGraph is who waits. Together with the locks of files it says for whom: an owner waits for
// each owner of a lock that is in the way of its request. A request that would close a circle of
// these is answered NLM4_DEADLCK (RFC 1813 §6.1.4) and does not wait, as fcntl(2) fails with
// EDEADLK between processes of one machine, and as the server of Linux 6.1 does (that of 6.12 has
// both wait).
//
// Programs of this machine are in circles, too, as far as the kernel lists them. One that closes a
// circle itself the kernel does not tell: our locks are those of an open file description, which it
// does not follow. Then a client is told that asks again.
//
// An owner is a process for its client, so one of its threads that does not wait may yet release
// what others wait for; clients do not say so, and fcntl(2) takes such a process for one that
// waits, too.
type waitGraph struct {
	mu    sync.Mutex // guards all below; and file.locks, which change under file.mu as well
	waits map[*owner][]*waiter
	files map[inode]*file // that are open, and that the kernel lists
}

func (g *waitGraph) init() {
	g.waits, g.files = map[*owner][]*waiter{}, map[inode]*file{}
}

// maxLooks bounds how many locks one search looks at, as others' requests wait for its end. A
// circle that it does not find is one that nobody is told of, until a client gives up.
const maxLooks = 32 << 10

// wait enters a waiter unless it would close a circle, and reports whether it has. One that is
// there is taken out where by now it is in a circle. p are the programs that may be in it, nil:
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

// A step is a request in a search: an owner's, or else a program's.
type step struct {
	owner     *owner
	pid       int
	file      *file // nil: one that clients have no locks of
	inode     inode
	exclusive bool
	span
}

func stepOf(w *waiter) step {
	return step{owner: w.owner, file: w.file, inode: w.file.inode, exclusive: w.exclusive, span: w.span}
}

// A search looks for circles, the nearest first. waitGraph.mu is held.
type search struct {
	graph    *waitGraph
	programs *programs
	from     *owner
	next     []step
	owners   map[*owner]bool // that have been seen
	pids     map[int]bool
	looks    int // that are left
}

// closes reports whether w waits, in the end, for its own owner.
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

// clients follows the locks of clients that are in the way of a request, and reports whether one is
// of who has begun.
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
		if !h.inTheWay(at.owner, at.span, at.exclusive) || s.owners[h.owner] {
			continue
		}
		if h.owner == s.from {
			return true
		}
		s.owners[h.owner] = true
		found = append(found, h.owner)
	}
	for _, o := range found { // at is not ours after the first
		for _, w := range s.graph.waits[o] {
			s.next = append(s.next, stepOf(w))
		}
	}
	return false
}

// others follows the locks of programs.
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

// change changes the locks of a file, which is locked, while nobody looks at them from elsewhere.
func (g *waitGraph) change(f *file, do func(*lockset)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do(&f.locks)
}

// open enters a file under what the kernel lists it as.
func (g *waitGraph) open(f *file, i inode) {
	if i == (inode{}) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	f.inode, g.files[i] = i, f
}

// shut is the opposite of open.
func (g *waitGraph) shut(f *file) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.files[f.inode] == f {
		delete(g.files, f.inode)
	}
	f.inode = inode{}
}
