// Waiting: goroutines that wait for a File to change, each until its context ends.

package datapath

import (
	"context"
	"sync"
)

// A waiter is a goroutine that waits. Its channel holds one wake-up, so waking never blocks.
type waiter struct {
	ch chan struct{}

	// of a line for memory, guarded by the budget's lock
	acct    *account
	want    int64
	granted bool
}

// waiterPool keeps waiters for reuse. Each Engine has its own: a channel belongs to the
// bubble of testing/synctest that it was made in.
type waiterPool struct{ p sync.Pool }

func (wp *waiterPool) get() *waiter {
	if w, _ := wp.p.Get().(*waiter); w != nil {
		return w
	}
	return &waiter{ch: make(chan struct{}, 1)}
}

func (wp *waiterPool) put(w *waiter) {
	w.acct, w.granted = nil, false
	wp.p.Put(w)
}

// A waitList is who waits for a File to change. The File's lock guards it.
type waitList struct{ ws []*waiter }

// wait waits for the next wake or the end of ctx. mu is held on entry and on return,
// and not in between: the caller looks again at what it waits for.
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
		l.leave(w)
	}
	pool.put(w)
	return err
}

// leave takes w out of the list; if it was woken meanwhile, the wake-up is taken back.
func (l *waitList) leave(w *waiter) {
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

// wake lets all go on.
func (l *waitList) wake() {
	for i, w := range l.ws {
		l.ws[i] = nil
		w.ch <- struct{}{}
	}
	l.ws = l.ws[:0]
}
