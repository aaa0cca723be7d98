// Portions of the duplicate request cache: the share of each host and each of its users.

package transport

import (
	"container/heap"
	"container/list"
)

// A portion is the part of the cache for all hosts, for one host, or for one user of a host. All is
// guarded by drc.mu.
type portion struct {
	up    *portion // nil: of all hosts
	key   any      // in up.byKey
	size  int      // of its entries
	last  uint64   // number of its newest entry
	index int      // in up.parts

	count uint64           // of all hosts: entries so far
	byKey map[any]*portion // hosts, or users of one
	parts portionHeap      // the same
	list  list.List        // of a user: *drcEntry, the oldest first
}

// part returns the portion below p with that key. The caller adds an entry if it is new.
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

// add enters e as the newest of a user.
func (p *portion) add(e *drcEntry) {
	e.of, e.inTurn = p, p.list.PushBack(e)
	all := p.up.up
	all.count++
	p.last, p.up.last = all.count, all.count
	p.resize(e.size())
}

// remove takes out e, and the portions that have no entry then.
func (p *portion) remove(e *drcEntry) {
	p.list.Remove(e.inTurn)
	p.resize(-e.size())
}

// resize counts bytes, from the user up.
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

// largest returns the oldest entry of the largest user of the largest host.
func (p *portion) largest() *drcEntry {
	for len(p.parts) > 0 {
		p = p.parts[0]
	}
	return p.list.Front().Value.(*drcEntry)
}

// A portionHeap has the largest portion first; of equal ones, the one without a new entry for the
// longest time.
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

// Push is for package heap.
func (h *portionHeap) Push(x any) {
	p := x.(*portion)
	p.index = len(*h)
	*h = append(*h, p)
}

// Pop is for package heap.
func (h *portionHeap) Pop() any {
	old := *h
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return p
}
