// A Budget shared by connections that keep their bytes and connections that wait.

package mem

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// Connections that take all the bytes they can get, and return none, leave much more than they hold
// to the next connection. The first one gets half.
func TestBudgetShares(t *testing.T) {
	const total, step = 256 << 20, 1 << 16
	b := NewBudget(total)
	for n := range 20 {
		a := b.Open(nil)
		free := b.Free()
		for a.Take(step) {
		}
		want := free / (minFreeRatio + 1)
		if n == 0 {
			want = total / 2
		}
		if held := a.Held(); held > want || held < want-step {
			t.Errorf("connection %d holds %d of the %d that were free", n, held, free)
		}
	}
	if b.Free() < 32<<20 {
		t.Errorf("%d are free", b.Free())
	}
}

// An account gets the whole budget if no other account holds bytes. Otherwise it gets at most half
// of the free bytes.
func TestBudgetLargest(t *testing.T) {
	b := NewBudget(1 << 20)
	one, other := b.Open(nil), b.Open(nil)
	if !one.Take(1<<20) || other.Take(1) {
		t.Error("all of it")
	}
	one.Give(1 << 20)
	if got, want := [3]bool{one.Take(1), other.Take(1 << 19), other.Take(1 << 18)}, [3]bool{true, false, true}; got != want {
		t.Errorf("beside another: %v, want %v", got, want)
	}
}

// A large request gets its turn although many accounts have small requests. Some bytes are always
// held, because each account takes before the previous one gives back.
func TestLargePullDoesNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1 << 20)
		var large atomic.Bool
		var crowd [8]*Account
		for i := range crowd {
			crowd[i] = b.Open(func(int64) { t.Error("did not wait") })
		}
		if !crowd[0].Take(1 << 17) {
			t.Fatal("nothing is free")
		}
		a := b.Open(func(int64) { large.Store(true) })
		if a.TakeOrWait(1 << 19) {
			t.Fatal("half of all beside another")
		}
		holders := crowd[:1]
		for i := 1; !large.Load(); i++ {
			if i > 100 {
				t.Fatal("100 others were served meanwhile")
			}
			next := crowd[i%len(crowd)]
			if next.Take(1 << 17) { // before the last one gives back
				holders = append(holders, next)
			}
			if len(holders) == 0 {
				t.Fatal("all is free, and nobody was served")
			}
			holders[0].Give(1 << 17)
			holders = holders[1:]
			time.Sleep(time.Millisecond)
		}
		a.Give(1 << 19)
	})
}

// An account that keeps its share forever, for example on a hung disk, delays the large request,
// but not all others: they are served between two turns of the large request.
func TestHungHolderDoesNotStopOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1 << 20)
		hung, large, small := b.Open(nil), b.Open(func(int64) {}), b.Open(nil)
		if !hung.Take(1<<19) || large.TakeOrWait(1<<19) {
			t.Fatal("one half, then the other")
		}
		served := 0
		for range 1000 {
			if small.Take(4096) {
				served++
				small.Give(4096)
			}
			time.Sleep(turnTime / 100)
		}
		if served < 400 || served > 600 {
			t.Errorf("served %d times of 1000", served)
		}
		large.Leave() // its connection ends
		time.Sleep(2 * turnTime)
		if !small.Take(4096) {
			t.Error("not served when nobody waits")
		}
		small.Give(4096)
		hung.Give(1 << 19)
		if b.Free() != b.Total() || b.timer != nil {
			t.Errorf("%d free, timer %v", b.Free(), b.timer)
		}
	})
}

// Waiting accounts are served in order of arrival, once each, and a served one may wait again in
// its callback.
func TestBudgetLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1 << 20)
		all := b.Open(nil)
		if !all.Take(1 << 20) {
			t.Fatal("all of it")
		}
		var order []int
		var accounts [3]*Account
		for i := range accounts {
			accounts[i] = b.Open(func(n int64) {
				if order = append(order, i); n != 1<<10 {
					t.Errorf("%d bytes", n)
				}
				if len(order) == 2 && accounts[i].TakeOrWait(1<<20) {
					t.Error("more than there is")
				}
			})
			if accounts[i].TakeOrWait(1 << 10) {
				t.Error("not free")
			}
		}
		all.Give(1 << 20)
		time.Sleep(4 * turnTime)
		if want := []int{0, 1, 2}; !slices.Equal(order, want) {
			t.Errorf("served %v, want %v", order, want)
		}
		accounts[1].Leave()
		for _, a := range accounts {
			a.Give(1 << 10)
		}
		if b.Free() != b.Total() || len(b.queue) != 0 {
			t.Errorf("%d free, %d in line", b.Free(), len(b.queue))
		}
		time.Sleep(4 * turnTime)
	})
}

// TestBudgetFits: whether a request for n bytes fits a budget of 100, by the bytes that others and
// its own connection hold.
func TestBudgetFits(t *testing.T) {
	for _, row := range []struct {
		others, held, n int64
		want            bool
	}{
		{0, 0, 100, true}, {0, 0, 101, false}, // alone: one call of any size
		{0, 30, 20, true}, {0, 30, 21, false}, // alone, with bytes held: at most half of all
		{50, 0, 25, true}, {50, 0, 26, false}, // beside others: at most half of the free bytes
		{30, 10, 10, false}, {10, 1, 4, true}, {10, 1, 5, false}, // beside others, with bytes held: 16 times as many stay free
		{100, 0, 1, false},
	} {
		b := NewBudget(100)
		a := b.Open(nil)
		b.free, a.held = 100-row.others-row.held, row.held
		if got := a.Take(row.n); got != row.want {
			t.Errorf("%+v: %v", row, got)
		}
		taken := int64(0)
		if row.want {
			taken = row.n
		}
		if a.Held() != row.held+taken || b.Free() != 100-row.others-row.held-taken {
			t.Errorf("%+v: %d held, %d free", row, a.Held(), b.Free())
		}
	}
}

func TestBuffer(t *testing.T) {
	for n, want := range map[int]int64{0: 512, 1: 512, 512: 512, 513: 1024, 4 << 20: 4 << 20, 4<<20 + 1: 4<<20 + 1} {
		f := Get(n)
		if len(f.B) != n || int64(cap(f.B)) < want || Size(n) != want {
			t.Errorf("%d: length %d, capacity %d, size %d, want %d", n, len(f.B), cap(f.B), Size(n), want)
		}
		f.Put()
	}
	(*Buffer)(nil).Put()
	f := Get(3)
	copy(f.B, "abc")
	f.Charged = 1 << 10
	bigger := f.Grow(5000)
	if string(bigger.B[:3]) != "abc" || len(bigger.B) != 5000 {
		t.Errorf("%q in %d bytes, want abc in 5000", bigger.B[:3], len(bigger.B))
	}
	must.Equal(t, "the charge of the larger buffer", bigger.Charged, 1<<10)
	if bigger.Grow(10) != bigger {
		t.Error("a smaller size made another buffer")
	}
	bigger.Put()
	if bigger.Charged != 0 { // the next owner's bytes must be charged again
		t.Errorf("%d bytes are still charged", bigger.Charged)
	}
}
