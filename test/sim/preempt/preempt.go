// Package preempt lets a simulation give the processor to other goroutines in places where
// the scheduler could, but seldom does: where a lock has been released. Programs do not
// call it; test/sim builds a copy of the module that does.
package preempt

import (
	"runtime"
	"sync/atomic"
)

// state is that of a xorshift generator; 0: Point does nothing. One processor runs the
// simulation, so that what the generator gives depends on the seed alone.
var state, mask atomic.Uint64

// Seed begins a run in which about one Point of every most yields; 0: none does.
func Seed(seed uint64, every int) {
	mask.Store(uint64(every))
	if every == 0 {
		seed = 0
	} else if seed = seed*0x9e3779b97f4a7c15 + 1; seed == 0 {
		seed = 1
	}
	state.Store(seed)
}

// Point is a place where others may run.
func Point() {
	x := state.Load()
	if x == 0 {
		return
	}
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	state.Store(x)
	if (x>>20)%mask.Load() == 0 {
		runtime.Gosched()
	}
}
