// The Budget between connections that keep what they have, and those that wait.

package rpcrdma

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Connections that take all they can get, and give nothing back, leave much more
// than they have for the next one; one that is alone gets half.
func TestBudgetShares(t *testing.T) {
	const total, step = 256 << 20, 1 << 16
	b := NewBudget(total)
	for n := range 20 {
		a := b.open(nil)
		r := &Request{rs: &responder{account: a}}
		free := b.Free()
		for r.Buffer(step) != nil {
		}
		want := free / (greedy + 1)
		if n == 0 {
			want = total / 2
		}
		if held := a.held; held != r.held || held > want || held < want-step {
			t.Errorf("connection %d holds %d of the %d that were free", n, held, free)
		}
		for _, f := range r.results {
			f.put()
		}
	}
	if b.Free() < 32<<20 {
		t.Errorf("%d are free", b.Free())
	}
}

// The largest request is met when nobody else has anything, and not when it would leave less than itself.
func TestBudgetLargest(t *testing.T) {
	b := NewBudget(1 << 20)
	one, other := b.open(nil), b.open(nil)
	if !one.take(1<<20) || other.take(1) {
		t.Error("all of it")
	}
	one.give(1 << 20)
	if !one.take(1) || other.take(1<<19) || !other.take(1<<18) {
		t.Error("beside another")
	}
}

// A crowd of accounts that each take little, twice at once so that something is held
// at any time, does not keep a large request waiting: it gets its turn.
func TestLargePullDoesNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1 << 20)
		var large atomic.Bool
		var crowd [8]*account
		for i := range crowd {
			crowd[i] = b.open(func(int64) { t.Error("did not wait") })
		}
		if !crowd[0].take(1 << 17) {
			t.Fatal("nothing is free")
		}
		a := b.open(func(int64) { large.Store(true) })
		if a.takeOrWait(1 << 19) {
			t.Fatal("half of all beside another")
		}
		holders := crowd[:1]
		for i := 1; !large.Load(); i++ {
			if i > 100 {
				t.Fatal("100 others were served meanwhile")
			}
			next := crowd[i%len(crowd)]
			if next.take(1 << 17) { // before the last one gives back
				holders = append(holders, next)
			}
			if len(holders) == 0 {
				t.Fatal("all is free, and nobody was served")
			}
			holders[0].give(1 << 17)
			holders = holders[1:]
			time.Sleep(time.Millisecond)
		}
		a.give(1 << 19)
	})
}

// One that holds its part for ever, for its disk is hung, keeps the large request
// waiting, but not all others: they are served between two turns of it.
func TestHungHolderDoesNotStopOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1 << 20)
		hung, large, small := b.open(nil), b.open(func(int64) {}), b.open(nil)
		if !hung.take(1<<19) || large.takeOrWait(1<<19) {
			t.Fatal("one half, then the other")
		}
		served := 0
		for range 1000 {
			if small.take(4096) {
				served++
				small.give(4096)
			}
			time.Sleep(turnTime / 100)
		}
		if served < 400 || served > 600 {
			t.Errorf("served %d times of 1000", served)
		}
		large.close() // its connection ends
		time.Sleep(2 * turnTime)
		if !small.take(4096) {
			t.Error("not served when nobody waits")
		}
		small.give(4096)
		hung.give(1 << 19)
		if b.Free() != b.Total() || b.timer != nil {
			t.Errorf("%d free, timer %v", b.Free(), b.timer)
		}
	})
}

// Those in line are served in order of arrival, once each, and the one that is served
// may wait again where it is told.
func TestBudgetLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1 << 20)
		all := b.open(nil)
		if !all.take(1 << 20) {
			t.Fatal("all of it")
		}
		var order []int
		var accounts [3]*account
		for i := range accounts {
			accounts[i] = b.open(func(n int64) {
				if order = append(order, i); n != 1<<10 {
					t.Errorf("%d bytes", n)
				}
				if len(order) == 2 && accounts[i].takeOrWait(1<<20) {
					t.Error("more than there is")
				}
			})
			if accounts[i].takeOrWait(1 << 10) {
				t.Error("not free")
			}
		}
		all.give(1 << 20)
		time.Sleep(4 * turnTime)
		if len(order) != 3 || order[0] != 0 || order[1] != 1 || order[2] != 2 {
			t.Errorf("served %v", order)
		}
		accounts[1].close()
		for _, a := range accounts {
			a.give(1 << 10)
		}
		if b.Free() != b.Total() || len(b.line) != 0 {
			t.Errorf("%d free, %d in line", b.Free(), len(b.line))
		}
		time.Sleep(4 * turnTime)
	})
}
