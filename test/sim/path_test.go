// The path plan: how the network treats the bytes in one direction.

package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// Events in a direction. A direction has at most one, when a chosen number of bytes have arrived.
const (
	eventNone = iota
	eventStall
	eventReset
	eventFIN
)

// slowPieces is the number of pieces in a direction that may be small and late. Later pieces are
// larger, so that a large message does not take too long.
const slowPieces = 150

// A pathPlan is owned by the link's mu.
type pathPlan struct {
	rng    *rand.Rand
	pieces int           // cut so far
	max    int           // bytes of a piece while they may be small
	late   time.Duration // the most that a piece is on its way
	rate   int           // bytes in a second; 0: they take no time
	kind   int
	at     int // bytes
	stall  time.Duration
	dead   time.Duration // before a reset: nothing moves for so long
	passed bool          // the event is over
}

// logUniform returns a number from 1 to n whose logarithm is uniformly distributed.
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

// delay returns the time for which the next piece is on its way.
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

// piece returns the number of bytes, at most n, that arrive at once. They end before the next
// event.
func (w *pathPlan) piece(n, carried int) int {
	size := logUniform(w.rng, w.max)
	if w.pieces > slowPieces {
		size += 8 << 10
	}
	if w.rate > 0 {
		size = min(size+w.rate/32, w.rate/8)
	}
	n = min(n, size)
	if w.kind != eventNone && !w.passed && carried < w.at {
		n = min(n, w.at-carried)
	}
	return n
}

// duration returns the time that n bytes take on a slow link.
func (w *pathPlan) duration(n int) time.Duration {
	if w.rate == 0 {
		return 0
	}
	return time.Duration(n) * time.Second / time.Duration(w.rate)
}

// event returns the current event.
func (w *pathPlan) event(carried int) int {
	if w.passed || carried < w.at {
		return eventNone
	}
	return w.kind
}

// patienceOfPeers is the time after which an end gives the connection up: an abandoned call still
// waits to be sent, or RPC-over-RDMA makes no progress.
const patienceOfPeers = 4 * time.Second

// A linkPlan has the random choices for one connection.
type linkPlan struct {
	paths   [2]*pathPlan
	windows [2]int
	sockets [2]socketPlan
}

// chooseLink may give each direction one event. stalls limits the length of a stall.
func chooseLink(rng *rand.Rand, seed uint64, stalls time.Duration) linkPlan {
	p := linkPlan{windows: [2]int{2048 + logUniform(rng, 512<<10), 2048 + logUniform(rng, 512<<10)}}
	for i := range p.paths {
		rng := newRand(seed, purposePath+uint64(i))
		w := newPathPlan(rng)
		p.paths[i] = w
		w.at = logUniform(rng, 400_000)
		switch rng.IntN(10) {
		case 0:
			w.kind, w.stall = eventStall, time.Duration(logUniform(rng, 1_500_000_000))
		case 1:
			if rng.IntN(3) == 0 { // nothing moves until TCP gives up
				w.kind = eventReset
				w.dead = 5 * time.Minute
			} else {
				w.kind = eventReset + rng.IntN(2)
			}
		case 2: // the socket fills and stays so; not during start-up, which has a time limit
			w.kind, w.stall = eventStall, time.Duration(logUniform(rng, int(stalls)))
			w.at += 1000
		}
		p.sockets[i] = chooseSocket(rng)
		p.sockets[i].mss = []int{1428, 8928, 20_000, 40_000}[newRand(seed, purposeSize+uint64(i)).IntN(4)]
	}
	if rng.IntN(8) == 0 {
		rate := 24<<10 + logUniform(rng, 512<<10)
		p.paths[rng.IntN(2)].rate = rate
		if rng.IntN(2) == 0 {
			p.paths[0].rate, p.paths[1].rate = rate, rate
		}
	}
	return p
}

func chooseSocket(rng *rand.Rand) socketPlan {
	s := socketPlan{ready: rng.IntN(4) > 0}
	if rng.IntN(4) == 0 {
		s.short = 500 + logUniform(rng, 16<<10)
	}
	if rng.IntN(3) == 0 {
		s.yield = logUniform(rng, 64)
	}
	return s
}
