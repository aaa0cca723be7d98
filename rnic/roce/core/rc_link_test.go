// RC over a link with limited rate and an overflowing queue, and over a lossy one: throughput and
// fairness.

package core

import (
	"container/heap"
	"math/rand/v2"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A link is one direction of a network: packets leave one after the other, from a queue.
type link struct {
	perByte Instant // nanoseconds
	queue   int     // queue limit in packets; further ones are lost
	delay   Instant
	lose    int // loss in 1/10000

	free Instant // when the last queued packet has left
	left []Instant
	lost int
}

// A bottleneck is a set of RC connections that share one link in each direction.
type bottleneck struct {
	t     *testing.T
	r     *rand.Rand
	now   Instant
	out   [2]*link // from the first sides, and from the second sides
	flows []*flow
	air   flights
	order int
	room  []byte
}

// A flow is one connection with endless work.
type flow struct {
	sides [2]*side
	ask   func(s *side)
	depth int // outstanding work requests of the first side
	done  int // bytes
	size  int
}

func newBottleneck(t *testing.T, l link) *bottleneck {
	back := l
	return &bottleneck{t: t, r: rand.New(rand.NewPCG(7, 7)), out: [2]*link{&l, &back}, room: make([]byte, MaxPacket)}
}

const flowSize = 256 << 10

// add adds a connection with a first side that keeps four Writes, or Reads, outstanding.
func (b *bottleneck) add(op rnic.Opcode) *flow {
	x, y := reliables(b.t, 1024, uint32(b.r.IntN(1<<24)), func(at *Attrs) { at.Timeout = 14; at.MaxReads, at.MaxDestReads = 8, 8 })
	local, buf := x.host.region(b.t, 4*flowSize, rnic.LocalWrite)
	remote, _ := y.host.region(b.t, flowSize, rnic.RemoteWrite|rnic.RemoteRead)
	f := &flow{sides: [2]*side{x, y}, size: flowSize}
	f.ask = func(s *side) {
		wr := rnic.SendWR{Op: op, RemoteSTag: remote.STag(), RemoteTO: remote.Base()}
		if op == rnic.OpRead {
			wr.MR, wr.Offset, wr.Length = local, 0, flowSize
		} else {
			wr.SGL = pieces(buf[:flowSize])
		}
		s.post(wr)
	}
	b.flows = append(b.flows, f)
	return f
}

// transmit moves a side's packets into its link's queue.
func (b *bottleneck) transmit(f *flow, i int) {
	s, l := f.sides[i], b.out[i]
	for {
		n, r, ok := s.qp.Next(b.now, b.room)
		if !ok {
			return
		}
		s.qp.Sent(1)
		for len(l.left) > 0 && l.left[0] <= b.now {
			l.left = l.left[1:]
		}
		if len(l.left) >= l.queue || b.r.IntN(10_000) < l.lose {
			l.lost++
			continue
		}
		g := put(s.host.addr, r.Peer, r.SrcPort, b.room[:n])
		l.free = max(l.free, b.now) + l.perByte*Instant(len(g.network)+len(g.datagram)+14)
		l.left = append(l.left, l.free)
		b.order++
		heap.Push(&b.air, flight{l.free + l.delay, b.order, f.sides[1-i], g})
	}
}

// run advances time to an instant.
func (b *bottleneck) run(until Instant) {
	var wcs [16]rnic.WC
	for b.now < until && !b.t.Failed() {
		next := until
		for _, i := range b.r.Perm(len(b.flows)) {
			f := b.flows[i]
			for ; f.depth < 4; f.depth++ {
				f.ask(f.sides[0])
			}
			b.transmit(f, 0)
			b.transmit(f, 1)
			for _, s := range f.sides {
				if at, ok := s.qp.Deadline(); ok {
					next = min(next, at)
				}
			}
		}
		if len(b.air) > 0 {
			next = min(next, b.air[0].at)
		}
		b.now = max(b.now, next)
		if len(b.air) > 0 && b.air[0].at <= b.now {
			p := heap.Pop(&b.air).(flight)
			p.to.host.port.Receive(b.now, p.f.network, p.f.datagram, false, nil)
		}
		for _, f := range b.flows {
			for _, s := range f.sides {
				s.qp.Tick(b.now)
				if err := s.qp.Ended(); err != nil {
					b.t.Errorf("ended after %d ns: %v", b.now, err)
					return
				}
			}
			for _, wc := range wcs[:f.sides[0].cq.Poll(wcs[:])] {
				if wc.Status != rnic.WCSuccess {
					b.t.Errorf("%v", wc)
				}
				f.done += f.size
				f.depth--
			}
		}
	}
}

const gigabit = 8 // nanoseconds for a byte

// Connections share a link with an overflowing queue, and none starves. Random losses cost only
// the retransmissions, a part of the link. The bounds are about two thirds of measured values,
// for lossy Reads five sixths: below that, a Read would wait for its requests one by one.
func TestLinkIsShared(t *testing.T) {
	t.Parallel()
	const deep = 1 << 20
	for _, c := range []struct {
		op          rnic.Opcode
		flows       int
		queue, lose int
		sum, least  float64 // shares of the link: of all flows together, and of the worst one
	}{
		{rnic.OpWrite, 1, deep, 0, .9, .9}, {rnic.OpWrite, 4, deep, 0, .9, .15},
		{rnic.OpRead, 1, deep, 0, .9, .9}, {rnic.OpRead, 4, deep, 0, .9, .15},
		{rnic.OpWrite, 1, 40, 0, .5, .5}, {rnic.OpWrite, 4, 40, 0, .5, .06},
		{rnic.OpRead, 1, 40, 0, .5, .5}, {rnic.OpRead, 4, 40, 0, .5, .06},
		{rnic.OpWrite, 1, deep, 100, .4, .4}, {rnic.OpRead, 1, deep, 100, .5, .5},
		{rnic.OpWrite, 4, deep, 500, .4, .05}, {rnic.OpRead, 4, deep, 500, .55, .05},
	} {
		b := newBottleneck(t, link{perByte: gigabit, queue: c.queue, delay: 50_000, lose: c.lose})
		for range c.flows {
			b.add(c.op)
		}
		b.run(300e6)
		var sum float64
		least := 1.0
		for _, f := range b.flows {
			share := float64(f.done) * gigabit / float64(b.now)
			sum, least = sum+share, min(least, share)
		}
		if sum < c.sum || least < c.least {
			t.Errorf("%v, %d connections, queue of %d, %d of 10000 lost: %.3f of the link, the worst %.3f", c.op, c.flows, c.queue, c.lose, sum, least)
		}
	}
}
