// Portions of the duplicate request cache: the shares of hosts and their users.

package transport

import (
	"container/heap"
	"container/list"
)

// A portion is the cache's share of all hosts, of one host, or of one of its users. Guarded by
// drc.mu.
type portion struct {
	up    *portion // nil: all hosts
	key   any      // in up.byKey
	size  int      // the entries' size in bytes
	last  uint64   // number of the portion's newest entry
	index int      // in up.parts

	count uint64           // all hosts: entries so far
	byKey map[any]*portion // hosts, or a host's users
	parts portionHeap      // the subportions by size
	list  list.List        // a user's *drcEntry, oldest first
}

// part returns p's subportion for key, new if necessary. The caller then adds an entry.
func (p *portion) part(key any) *portion {
	if q := p.byKey[key]; q != nil {
		return q
	}
	if p.byKey == nil {
		p.byKey = map[any]*portion{}
	}
	q := &portion{up: p, key: key}
	p.byKey[key] = q
	heap.Push(&p.parts, q)
	return q
}

// add appends e as a user's newest entry.
func (p *portion) add(e *drcEntry) {
	e.portion, e.inTurn = p, p.list.PushBack(e)
	all := p.up.up
	all.count++
	p.last, p.up.last = all.count, all.count
	p.resize(e.size())
}

// remove removes e, and portions that become empty.
func (p *portion) remove(e *drcEntry) {
	p.list.Remove(e.inTurn)
	p.resize(-e.size())
}

// resize adds bytes to the user and its parents.
func (p *portion) resize(bytes int) {
	for ; p.up != nil; p = p.up {
		if p.size += bytes; p.size > 0 {
			heap.Fix(&p.up.parts, p.index)
			continue
		}
		heap.Remove(&p.up.parts, p.index)
		delete(p.up.byKey, p.key)
	}
	p.size += bytes
}

// largest returns the oldest entry of the largest host's largest user.
func (p *portion) largest() *drcEntry {
	for len(p.parts) > 0 {
		p = p.parts[0]
	}
	return p.list.Front().Value.(*drcEntry)
}

// A portionHeap has the largest portion first; of equally large ones, the one that has gone longest
// without a new entry.
type portionHeap []*portion

func (h portionHeap) Len() int { return len(h) }

func (h portionHeap) Less(i, j int) bool {
	if h[i].size != h[j].size {
		return h[i].size > h[j].size
	}
	return h[i].last < h[j].last
}

func (h portionHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *portionHeap) Push(x any) {
	p := x.(*portion)
	p.index = len(*h)
	*h = append(*h, p)
}

// Pop implements heap.Interface.
func (h *portionHeap) Pop() any {
	old := *h
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return p
}
