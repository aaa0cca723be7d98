// The queue for memory: its order, and when a later waiter may go first.

package datapath

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestBudgetLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		var pool waiterPool
		holder, large, small, hog := &account{limit: 100}, &account{limit: 100}, &account{limit: 100}, &account{limit: 20}
		if !b.take(holder, 60) || !b.take(hog, 15) {
			t.Fatal("not from an empty budget")
		}
		if b.take(hog, 10) {
			t.Error("over the bound of the account")
		}
		if b.take(holder, 5) {
			t.Error("more than is left for others")
		}
		kept := make(chan error, 1)
		go func() { kept <- b.wait(bg, &pool, hog, 10) }()
		synctest.Wait()
		if !b.take(small, 1) {
			t.Error("one that its own account keeps back keeps back another")
		}
		got := make(chan error, 1)
		go func() { got <- b.wait(bg, &pool, large, 50) }()
		synctest.Wait()
		if b.take(small, 1) {
			t.Error("a small request overtakes a large one that waits for what is free")
		}
		late := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(bg, time.Second)
			defer cancel()
			late <- b.wait(ctx, &pool, small, 1)
		}()
		if err := <-late; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a small request after a large one: %v", err)
		}
		b.give(holder, 60)
		if err := <-got; err != nil || b.usedBy(large) != 50 {
			t.Errorf("%v, %d", err, b.usedBy(large))
		}
		if len(kept) > 0 {
			t.Error("over the bound of the account, after a wait")
		}
		b.give(hog, 15)
		if err := <-kept; err != nil {
			t.Errorf("the waiter that was passed over: %v", err)
		}
		if got, want := [2]int64{b.used(), int64(b.waiting.Load())}, [2]int64{61, 0}; got != want {
			t.Errorf("bytes used and waiters: got %v, want %v", got, want)
		}
	})
}

// wait takes n bytes after waiting until they are available, or returns ctx's error.
func (b *budget) wait(ctx context.Context, pool *waiterPool, a *account, n int64) error {
	w := pool.get()
	defer pool.put(w)
	b.join(w, a, n)
	return b.await(ctx, w)
}
