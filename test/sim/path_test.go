// The path plan: what the network does to the bytes of one direction.

package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// What happens once in a direction's life, when so many bytes have arrived.
const (
	eventNone = iota
	eventStall
	eventReset
	eventFIN
)

// slowPieces is how many pieces of a direction may be small and late: the bytes
// of a large message are not to take all day one by one.
const slowPieces = 150

// A pathPlan is owned by the link's mu.
type pathPlan struct {
	rng    *rand.Rand
	pieces int           // that have been cut
	max    int           // bytes of a piece while they may be small
	late   time.Duration // the most that a piece is on its way
	kind   int
	at     int // bytes
	stall  time.Duration
	dead   time.Duration // before a reset: nothing moves for so long
	passed bool          // the event is over
}

// logUniform is a number from 1 to n whose order of magnitude is even.
func logUniform(rng *rand.Rand, n int) int {
	return min(n, int(math.Exp(rng.Float64()*math.Log(float64(n)+1))))
}

func newPathPlan(rng *rand.Rand) *pathPlan {
	w := &pathPlan{rng: rng, max: logUniform(rng, 64<<10), late: time.Duration(logUniform(rng, 3_000_000))}
	if rng.IntN(4) == 0 {
		w.late = 0
	}
	return w
}

// delay is how long the next piece is on its way.
func (w *pathPlan) delay() time.Duration {
	w.pieces++
	if w.late == 0 {
		return 0
	}
	d := time.Duration(w.rng.Int64N(int64(w.late)))
	if w.pieces > slowPieces {
		d /= 8
	}
	return d
}

// piece is how many of n bytes arrive at once; none are carried across an event.
func (w *pathPlan) piece(n, carried int) int {
	size := logUniform(w.rng, w.max)
	if w.pieces > slowPieces {
		size += 8 << 10
	}
	n = min(n, size)
	if w.kind != eventNone && !w.passed && carried < w.at {
		n = min(n, w.at-carried)
	}
	return n
}

// event is what happens now.
func (w *pathPlan) event(carried int) int {
	if w.passed || carried < w.at {
		return eventNone
	}
	return w.kind
}

// choosePaths may give each direction one event.
func choosePaths(seed uint64) (ws [2]*pathPlan) {
	for i := range ws {
		rng := newRand(seed, purposePath+uint64(i))
		ws[i] = newPathPlan(rng)
		ws[i].at = logUniform(rng, 400_000)
		switch rng.IntN(10) {
		case 0:
			ws[i].kind, ws[i].stall = eventStall, time.Duration(logUniform(rng, 1_500_000_000))
		case 1:
			if rng.IntN(3) == 0 { // nothing moves until TCP gives up
				ws[i].kind = eventReset
				ws[i].dead = 5 * time.Minute
			} else {
				ws[i].kind = eventReset + rng.IntN(2)
			}
		}
	}
	return ws
}
