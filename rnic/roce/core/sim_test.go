// The services over a network that loses, duplicates, delays, reorders and damages datagrams, in
// virtual time. Each service's promises hold for every seed, and each seed is reproducible.

package core

import (
	"container/heap"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// faults is a network's treatment of datagrams: chances in 1/1000, and times.
type faults struct {
	lose, double, damage int
	delay, jitter        Instant
	dead                 Instant // if not 0, nothing arrives from then on
}

// A flight is a datagram in flight.
type flight struct {
	at    Instant
	order int
	to    *side
	f     frame
}

type flights []flight

func (q flights) Len() int { return len(q) }
func (q flights) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q flights) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *flights) Push(x any)   { *q = append(*q, x.(flight)) }
func (q *flights) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// A world has two sides, or more that send to the second, and the network between them.
type world struct {
	t     *testing.T
	r     *rand.Rand
	now   Instant
	h     faults
	air   flights
	sent  int
	sides []*side
	peer  map[*side]*side
	room  []byte
	came  int                     // received datagrams
	takes func(*side, frame) bool // nil, or whether a side takes a frame

	receives map[*side]func() int // for sides that obey credits: receives posted by the peer so far
	needed   map[*side]int        // messages sent that need one
}

func newWorld(t *testing.T, seed uint64, a, b *side, h faults) *world {
	return &world{t: t, r: rand.New(rand.NewPCG(seed, 12)), h: h, sides: []*side{a, b}, peer: map[*side]*side{a: b, b: a}, room: make([]byte, MaxPacket)}
}

// chance returns true with probability n/1000.
func (w *world) chance(n int) bool { return w.r.IntN(1000) < n }

// transmit puts at most n of a side's packets on the wire.
func (w *world) transmit(s *side, n int) (sent int) {
	for ; sent < n; sent++ {
		before, high := s.qp.req.next, s.qp.req.high
		length, r, ok := s.qp.Next(w.now, w.room)
		if !ok {
			break
		}
		w.paced(s.qp, before)
		w.acknowledged(s, w.room[:length])
		w.credited(s, high, w.room[:length])
		s.qp.Sent(1)
		f := put(s.host.addr, r.Peer, r.SrcPort, w.room[:length])
		for range 1 + w.one(w.h.double) {
			if w.chance(w.h.lose) || w.h.dead != 0 && w.now >= w.h.dead {
				continue
			}
			g := frame{f.network, append([]byte(nil), f.datagram...)}
			if w.chance(w.h.damage) {
				g.datagram[w.r.IntN(len(g.datagram))] ^= 1 << w.r.IntN(8)
			}
			at := w.now + w.h.delay
			if w.h.jitter > 0 {
				at += Instant(w.r.Int64N(int64(w.h.jitter)))
			}
			w.sent++
			heap.Push(&w.air, flight{at, w.sent, w.peer[s], g})
		}
	}
	s.end.end()
	return sent
}

// paced checks that a QP's packets in flight fit its window, or one Read unit, and that the
// window is within its bounds.
func (w *world) paced(qp *QP, before uint32) {
	r := &qp.req
	if qp.service != packet.RC || qp.state == ERR {
		return
	}
	if r.window < minWindow || r.window > r.widest || len(r.ends) > qp.attrs.MaxReads {
		w.t.Fatalf("%v: a window of %d, %d Reads", qp, r.window, len(r.ends))
	}
	if out := distance(r.next, r.una); r.next != before && out > max(r.window, wideUnit) {
		w.t.Fatalf("%v: %d packets on the wire, with a window of %d", qp, out, r.window)
	}
}

// acknowledged checks that no acknowledge has an incomplete Read's or atomic's PSN: Linux rxe
// would take that for completion.
func (w *world) acknowledged(s *side, datagram []byte) {
	h, _, err := packet.Parse(append(slices.Clone(datagram), make([]byte, packet.ICRCLen)...))
	if err != nil || h.Opcode != packet.RCAck || h.AETH.Syndrome.Kind() != packet.KindACK {
		return
	}
	q := w.peer[s].qp
	for i, end := q.sq.Begun(); i != end; i++ {
		if e := q.sq.At(i); returnsData(e.Op) && !e.Done && distance(h.PSN, e.P.first) <= distance(e.P.last, e.P.first) {
			w.t.Fatalf("%v: an acknowledge with PSN %#x, of %v with PSNs %#x to %#x", s.qp, h.PSN, e.Op, e.P.first, e.P.last)
		}
	}
}

func (w *world) one(chance int) int {
	if w.chance(chance) {
		return 1
	}
	return 0
}

// step runs the next event, and reports whether there was one.
func (w *world) step() bool {
	for _, s := range w.sides {
		w.transmit(s, 1+w.r.IntN(20))
	}
	next := Instant(1 << 62)
	if len(w.air) > 0 {
		next = w.air[0].at
	}
	for _, s := range w.sides {
		if at, ok := s.qp.Deadline(); ok {
			next = min(next, at)
		}
	}
	if next == 1<<62 {
		return w.transmit(w.sides[0], 1)+w.transmit(w.sides[1], 1) > 0
	}
	w.now = max(w.now, next)
	for len(w.air) > 0 && w.air[0].at <= w.now {
		f := heap.Pop(&w.air).(flight)
		if w.takes != nil && !w.takes(f.to, f.f) {
			continue
		}
		f.to.host.port.Receive(w.now, f.f.network, f.f.datagram, false, nil)
		f.to.end.end()
		w.came++
	}
	for _, s := range w.sides {
		s.qp.Tick(w.now)
		s.end.end()
	}
	return true
}

// someHarm returns a seed's network, from good to very bad.
func someHarm(r *rand.Rand) faults {
	level := []int{0, 1, 10, 50, 100}[r.IntN(5)]
	h := faults{delay: Instant(1+r.IntN(100)) * 1000}
	if level > 0 {
		h.lose, h.double, h.damage = r.IntN(level+1), r.IntN(level+1), r.IntN(level+1)
	}
	if r.IntN(2) == 0 {
		h.jitter = Instant(1 + r.IntN(200_000))
	}
	return h
}

// simSeeds runs one for each seed: 100, or NFSRDMA_SIM_SEEDS of them, or only NFSRDMA_ROCE_SEED.
func simSeeds(t *testing.T, one func(t *testing.T, seed uint64)) {
	t.Parallel()
	if s := os.Getenv("NFSRDMA_ROCE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("ParseUint: %v", err)
		}
		one(t, seed)
		return
	}
	n, _ := strconv.Atoi(os.Getenv("NFSRDMA_SIM_SEEDS"))
	if n == 0 {
		n = 100
	}
	for seed := range uint64(n) {
		one(t, seed)
		if t.Failed() {
			t.Fatalf("again: NFSRDMA_ROCE_SEED=%d go test ./rnic/roce/core -run '^%s$'", seed, t.Name())
		}
	}
}
