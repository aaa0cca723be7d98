// Package preempt lets a simulation yield to other goroutines at points where the scheduler could,
// but rarely does: after the release of a lock. Programs do not call it; test/sim builds a copy of
// the module that does.
package preempt

import (
	"runtime"
	"sync/atomic"
)

// state belongs to a xorshift generator; 0 disables Point. The simulation has one processor, so the
// generator's values depend only on the seed.
var state, mask atomic.Uint64

// Seed starts a run in which about one in every Points yields; every 0: none.
func Seed(seed uint64, every int) {
	mask.Store(uint64(every))
	if every == 0 {
		seed = 0
	} else if seed = seed*0x9e3779b97f4a7c15 + 1; seed == 0 {
		seed = 1
	}
	state.Store(seed)
}

// Point lets other goroutines run, in about one of every calls.
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
