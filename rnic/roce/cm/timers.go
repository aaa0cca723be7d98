// Timers: a heap of connections by deadline.

package cm

import "container/heap"

// timers is the heap; Conn.timer is a connection's position in it, from 1.
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

// start sets k's deadline to at.
func (t *timers) start(k *Conn, at Instant) {
	k.deadline = at
	if k.timer == 0 {
		heap.Push(t, k)
		return
	}
	heap.Fix(t, k.timer-1)
}

// stop removes k's deadline, if any.
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

// A bucket is a rate limit: it permits a steady rate, or a burst of a tenth of a second's share.
type bucket struct{ next Instant }

// take reports whether the action is permitted now, at a rate of perSecond.
func (b *bucket) take(now Instant, perSecond int) bool {
	if b.next-now > second/10 {
		return false
	}
	b.next = max(b.next, now) + second/Instant(perSecond)
	return true
}
