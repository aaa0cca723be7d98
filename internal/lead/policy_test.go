// Which requests are the leader's.

package lead

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Requests are taken to be alone after a number of them in a row, until another one is beside.
func TestRow(t *testing.T) {
	var r Row
	for range 2 {
		for i := range AloneMin {
			if r.Alone() {
				t.Fatalf("alone after %d requests, want %d", i, AloneMin)
			}
			r.Count(false)
		}
		for range 2 * AloneMin {
			if r.Count(false); !r.Alone() {
				t.Fatal("not alone after a long row")
			}
		}
		if got := r.n.Load(); got != AloneMin {
			t.Errorf("has counted %d requests, want no more than %d", got, AloneMin)
		}
		r.Count(true)
		r.Count(true)
	}
}

// A backoff passes over a number of requests, whoever asks, and begins anew when it starts again.
func TestBackoff(t *testing.T) {
	var b Backoff
	if b.Active() || b.Pass() {
		t.Error("passes over requests before it starts")
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
			t.Fatalf("passes over %d requests, want %d", got, Passes)
		}
		if b.Active() {
			t.Fatal("active after all of them")
		}
	}
	if got, want := b.passed.Load(), uint64(rounds*Passes+1); got != want {
		t.Errorf("has counted %d, want %d", got, want)
	}
}
