// Waiting: goroutines waiting for a File's change, each until its context ends.

package datapath

import (
	"context"
	"sync"
)

// A waiter is a waiting goroutine. Its channel holds one wake-up, so waking never blocks.
type waiter struct {
	ch chan struct{}

	// in a budget's queue, guarded by the budget's mu
	acct    *account
	want    int64
	granted bool
}

// waiterPool reuses waiters. Each Engine has its own, because a channel belongs to the
// testing/synctest bubble of its creation.
type waiterPool struct{ p sync.Pool }

// get returns a waiter with an empty channel; put takes it back.
func (wp *waiterPool) get() *waiter {
	if w, _ := wp.p.Get().(*waiter); w != nil {
		return w
	}
	return &waiter{ch: make(chan struct{}, 1)}
}

// put returns w to the pool; w's wake-up must have been received.
func (wp *waiterPool) put(w *waiter) {
	w.acct, w.granted = nil, false
	wp.p.Put(w)
}

// A waitList has the goroutines waiting for a File's change. The File's mu guards it.
type waitList struct{ ws []*waiter }

// wait waits for the next wake or the end of ctx. The caller holds mu; wait releases it meanwhile,
// so the caller rechecks its condition.
func (l *waitList) wait(ctx context.Context, mu *sync.Mutex, pool *waiterPool) error {
	w := pool.get()
	l.ws = append(l.ws, w)
	mu.Unlock()
	var err error
	select {
	case <-w.ch:
		mu.Lock()
	case <-ctx.Done():
		err = ctx.Err()
		mu.Lock()
		l.remove(w)
	}
	pool.put(w)
	return err
}

// remove removes w from the list, or takes its wake-up if it was woken meanwhile.
func (l *waitList) remove(w *waiter) {
	for i := range l.ws {
		if l.ws[i] == w {
			last := len(l.ws) - 1
			l.ws[i], l.ws[last] = l.ws[last], nil
			l.ws = l.ws[:last]
			return
		}
	}
	<-w.ch
}

// wake wakes all waiters.
func (l *waitList) wake() {
	for i, w := range l.ws {
		l.ws[i] = nil
		w.ch <- struct{}{}
	}
	l.ws = l.ws[:0]
}
