// Deadlines: the connections that wait for a time, the soonest first.

package cm

import "container/heap"

// timers is a heap of connections by deadline; Conn.timer is the place in it, from 1 on.
type timers []*Conn

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].deadline < t[j].deadline }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].timer, t[j].timer = i+1, j+1
}
func (t *timers) Push(x any) {
	k := x.(*Conn)
	*t = append(*t, k)
	k.timer = len(*t)
}
func (t *timers) Pop() any {
	old := *t
	k := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	k.timer = 0
	return k
}

// start has k's deadline be at, in place of the one that it had.
func (t *timers) start(k *Conn, at Instant) {
	k.deadline = at
	if k.timer == 0 {
		heap.Push(t, k)
		return
	}
	heap.Fix(t, k.timer-1)
}

// stop takes k's deadline away, if it has one.
func (t *timers) stop(k *Conn) {
	if k.timer != 0 {
		heap.Remove(t, k.timer-1)
	}
}

func (t timers) first() (at Instant, ok bool) {
	if len(t) == 0 {
		return 0, false
	}
	return t[0].deadline, true
}

// A bucket limits how often something is done: steadily, or up to a tenth of a second's share at
// once.
type bucket struct{ next Instant }

// take reports whether it may be done now, perSecond times in a second.
func (b *bucket) take(now Instant, perSecond int) bool {
	if b.next-now > second/10 {
		return false
	}
	b.next = max(b.next, now) + second/Instant(perSecond)
	return true
}
