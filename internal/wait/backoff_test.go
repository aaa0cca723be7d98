// The number of tries that a Backoff skips.

package wait

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Each further miss in a row about doubles the number of skipped tries, up to a bound. A try that
// pays ends the row.
func TestMisses(t *testing.T) {
	var b Backoff
	passes := func() (n int) {
		for b.Pass() {
			n++
		}
		return n
	}
	for range 2 {
		for misses, want := range []int{0, 1, 3, 7, 15, 31, 63, 127, 255, 255} {
			if got := passes(); got != want {
				t.Errorf("after %d misses %d tries are passed over, want %d", misses, got, want)
			}
			b.Note(false)
		}
		passes()
		b.Note(true)
	}
	b.Skip(1000)
	b.Skip(12)
	if got := passes(); got != 12 {
		t.Errorf("%d tries are passed over, want 12", got)
	}
}

// After Start a Backoff skips Passes tries, whichever goroutines make them. Another Start sets the
// full number again.
func TestStart(t *testing.T) {
	var b Backoff
	if b.Active() || b.Pass() {
		t.Error("passes over tries before it starts")
	}
	b.Start()
	b.Pass()
	const rounds = 500
	for range rounds {
		b.Start()
		var passed atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range Passes {
					if b.Pass() {
						passed.Add(1)
						runtime.Gosched()
					}
				}
			})
		}
		all.Wait()
		if got := passed.Load(); got != Passes {
			t.Fatalf("passes over %d tries, want %d", got, Passes)
		}
		if b.Active() {
			t.Fatal("active after all of them")
		}
	}
	if got, want := b.Passed(), uint64(rounds*Passes+1); got != want {
		t.Errorf("has counted %d, want %d", got, want)
	}
}
