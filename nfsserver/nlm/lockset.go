// The locks of one file: which owner holds which bytes, and how. Pure range arithmetic: no calls
// and no waiting.

package nlm

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// lastByte is the end of a lock "to the end of the file". fcntl(2) offsets are signed, so no file
// has a byte after it.
const lastByte = math.MaxInt64

// A span is the bytes from start to end, both included.
type span struct{ start, end uint64 }

func (s span) overlaps(o span) bool { return s.start <= o.end && o.start <= s.end }

// A holding is one lock: a span held by one owner, shared or exclusively.
type holding struct {
	span
	owner     *owner
	exclusive bool
	since     time.Time // when the owner was granted it, or last a part of it
}

// conflicts reports whether another owner's request for s conflicts with the holding.
func (h *holding) conflicts(o *owner, s span, exclusive bool) bool {
	return h.owner != o && (exclusive || h.exclusive) && h.overlaps(s)
}

func kindOf(exclusive bool) nfsserver.LockType {
	if exclusive {
		return nfsserver.Exclusive
	}
	return nfsserver.Shared
}

// A lockset is one file's holdings, ordered by start. One owner's holdings do not overlap, and
// adjacent ones differ in kind, as in the kernel. So an owner's lock is one holding.
type lockset []holding

// conflict returns the first holding conflicting with a request of o, or nil.
func (l lockset) conflict(o *owner, s span, exclusive bool) *holding {
	for i := range l {
		if l[i].start > s.end {
			break
		}
		if l[i].conflicts(o, s, exclusive) {
			return &l[i]
		}
	}
	return nil
}

// near returns copies of the holdings overlapping or touching s.
func (l lockset) near(s span) (found lockset) {
	for i := range l {
		// Ends are at most lastByte, so adding one does not overflow.
		if l[i].start > s.end+1 {
			break
		}
		if l[i].end+1 >= s.start {
			found = append(found, l[i])
		}
	}
	return found
}

// take removes and returns o's holdings beginning at or before last for which goes returns true.
func (l *lockset) take(o *owner, last uint64, goes func(*holding) bool) (taken []holding) {
	behind, kept := l.indexFrom(last+1), 0
	for i := range behind {
		h := &(*l)[i]
		if h.owner == o && goes(h) {
			taken = append(taken, *h)
			continue
		}
		if kept != i {
			(*l)[kept] = *h
		}
		kept++
	}
	*l = slices.Delete(*l, kept, behind)
	return taken
}

// clear removes s from the holdings of o.
func (l *lockset) clear(o *owner, s span) {
	for _, h := range l.take(o, s.end, func(h *holding) bool { return h.overlaps(s) }) {
		if h.start < s.start {
			l.insert(holding{span{h.start, s.start - 1}, o, h.exclusive, h.since})
		}
		if h.end > s.end {
			l.insert(holding{span{s.end + 1, h.end}, o, h.exclusive, h.since})
		}
	}
}

// set makes o hold s, replacing its earlier holdings there. The caller has excluded conflicts.
func (l *lockset) set(o *owner, s span, exclusive bool) {
	l.clear(o, s)
	for _, h := range l.take(o, s.end+1, func(h *holding) bool { return h.exclusive == exclusive && (h.end+1 == s.start || s.end+1 == h.start) }) {
		s = span{min(s.start, h.start), max(s.end, h.end)}
	}
	l.insert(holding{s, o, exclusive, time.Now()})
}

// insert adds h in order of start. It overlaps no other holding of its owner.
func (l *lockset) insert(h holding) { *l = slices.Insert(*l, l.indexFrom(h.start), h) }

// indexFrom returns the index of the first holding beginning at or after start.
func (l lockset) indexFrom(start uint64) int {
	at, _ := slices.BinarySearchFunc(l, start, func(e holding, start uint64) int { return cmp.Compare(e.start, start) })
	return at
}

// of returns o's locks within s, cut to s.
func (l lockset) of(o *owner, s span) (held lockset) {
	for _, h := range l {
		if h.owner == o && h.overlaps(s) {
			h.span = span{max(h.start, s.start), min(h.end, s.end)}
			held = append(held, h)
		}
	}
	return held
}

// covers reports whether o holds all of s, and exclusively if exclusive is set.
func (l lockset) covers(o *owner, s span, exclusive bool) bool {
	at := s.start
	for _, h := range l.of(o, s) { // in order
		if h.start != at || exclusive && !h.exclusive {
			return false
		}
		if at = h.end + 1; h.end == s.end {
			return true
		}
	}
	return false
}

// A part is a span with the strongest lock any owner holds on all of it.
type part struct {
	span
	kind nfsserver.LockType
}

// An edge is the first byte of a holding, or the first byte after one.
type edge struct {
	at        uint64
	exclusive bool
	more      int // 1 or -1
}

// edges returns the edges within s, in order.
func (l lockset) edges(s span) (list []edge) {
	for i := range l {
		h := &l[i]
		if h.start > s.end {
			break
		}
		if h.end < s.start {
			continue
		}
		list = append(list, edge{max(h.start, s.start), h.exclusive, 1})
		if h.end < s.end {
			list = append(list, edge{h.end + 1, h.exclusive, -1})
		}
	}
	slices.SortFunc(list, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	return list
}

// parts returns s as the parts visible to other programs, in order and without gaps. Adjacent parts
// differ in kind. Any client may have many locks in a file, so the cost is little more than sorting
// them.
func (l lockset) parts(s span) (list []part) {
	held := map[bool]int{} // open holdings, by exclusive
	kind := func() nfsserver.LockType {
		switch {
		case held[true] > 0:
			return nfsserver.Exclusive
		case held[false] > 0:
			return nfsserver.Shared
		}
		return nfsserver.Unlocked
	}
	add := func(p part) {
		if n := len(list); n > 0 && list[n-1].kind == p.kind {
			list[n-1].end = p.end
		} else {
			list = append(list, p)
		}
	}
	at := s.start
	for _, e := range l.edges(s) {
		if e.at > at {
			add(part{span{at, e.at - 1}, kind()})
			at = e.at
		}
		held[e.exclusive] += e.more
	}
	add(part{span{at, s.end}, kind()})
	return list
}

// changes returns the parts of next of another kind in from; both cover the same span.
func changes(from, next []part) (list []part) {
	at := next[0].start
	for i, j := 0, 0; j < len(next); {
		p := part{span{at, min(from[i].end, next[j].end)}, next[j].kind}
		if from[i].kind != p.kind {
			list = append(list, p)
		}
		if at = p.end + 1; from[i].end == p.end {
			i++
		}
		if next[j].end == p.end {
			j++
		}
	}
	return list
}
