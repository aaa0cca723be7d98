// A world: a seed's choices for both endpoints and the network between them.

package sim

import (
	"math/rand/v2"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// A host is one endpoint. Host 0, A, connects; host 1, B, accepts.
type host struct {
	dev     *rnic.Device
	cfg     rpcrdma.Config
	total   int64 // of the budget
	svc     *service
	conn    *rpcrdma.Conn
	calls   [][]*plan // each caller's, in order
	probes  []*plan
	markers bool          // it asks for markers
	leave   time.Duration // when it closes the connection; 0: when all is done
	abort   bool          // leave without waiting for anything
	limits  []limit       // its grants, one after the other
}

// A limit is a grant, made some time after the one before.
type limit struct {
	after   time.Duration
	credits int
}

// A world is one run of a seed.
type world struct {
	seed  uint64
	rng   *rand.Rand
	hosts [2]*host
	link  *link
	obs   *observer
	wire  *rpcWire

	slow  bool // a slow link, and calls that are cancelled while it takes them
	lossy bool // replies are lost

	faults
	ended    map[uint32]bool
	poisoned [][]byte
}

// newRand returns the generator for one purpose: draws for other purposes do not change its values.
func newRand(seed, purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, purpose)) }

// Purposes of generators.
const (
	purposeWorld uint64 = iota
	purposePath
	_
	purposeCalls
	_
	purposeRTR
	purposeSample
	purposeForgery
	_
	purposePreempt
	purposeSlow
	purposeLossy
	purposeDamage
	purposeSize
	_
	purposeStrict
	_
	purposeLoss uint64 = 1 << 32 // and an XID
)

func newWorld(seed uint64) *world {
	w := &world{seed: seed, rng: newRand(seed, purposeWorld), ended: map[uint32]bool{}}
	w.obs = newObserver(w.fail)
	rng := w.rng
	slowRNG := newRand(seed, purposeSlow)
	w.slow = slowRNG.IntN(10) == 0
	crc := []rnic.CRCMode{rnic.CRCOn, rnic.CRCOff, rnic.CRCAuto}
	var credits [2]int
	var inval [2]bool
	for i := range w.hosts {
		h := &host{total: 64 << 20}
		w.hosts[i] = h
		dev := rnic.DeviceConfig{CRC: crc[rng.IntN(3)], Markers: rng.IntN(4) == 0}
		if rng.IntN(2) == 0 {
			dev.MaxIRD, dev.MaxORD = 1+rng.IntN(4), 1+rng.IntN(4)
		}
		h.dev, h.markers = iwarp.Open(dev), dev.Markers
		if rng.IntN(4) == 0 {
			h.total = 2 << 20 // the largest call fits, several do not
		}
		credits[i] = logUniform(rng, 32)
		inline := 1024 << rng.IntN(4)
		if w.slow {
			credits[i], inline = slowCredits, slowInline
		}
		inval[i] = rng.IntN(4) > 0
		h.cfg = rpcrdma.Config{Credits: credits[i], InlineSize: inline, Budget: mem.NewBudget(h.total)}
		h.svc = &service{plans: map[uint32]*plan{}, fail: w.fail, seen: map[uint32]bool{}, tight: h.total < 64<<20}
	}
	reverse := rng.IntN(3) == 0
	for i, h := range w.hosts {
		if i == 1 || reverse {
			h.cfg.Handler = h.svc
			w.planCalls(1-i, h.svc)
		}
	}
	if a, b := w.hosts[0], w.hosts[1]; reverse && rng.IntN(2) == 0 { // as if in one process
		a.cfg.Budget, a.total, a.svc.tight = b.cfg.Budget, b.total, b.svc.tight
	}
	w.wire = newRPCWire(credits, [2]bool{inval[1], inval[0]})
	w.obs.ulp = w.wire
	link := chooseLink(rng, seed, 2*time.Minute)
	if w.slow {
		link = slowLink(link, slowRNG)
	}
	if reverse { // an abandoned call then waits for Reads, whose answers wait for Writes
		link.paths[0].rate, link.paths[1].rate = 0, 0
	}
	w.link = newLink(link, w.obs)
	for i, e := range w.link.ends {
		if !inval[i] {
			e.frame = dumb
		}
	}
	limited := rng.IntN(4) == 0
	if w.lossy = !limited && newRand(seed, purposeLossy).IntN(6) == 0; w.lossy {
		for i, h := range w.hosts {
			w.lose(h.svc)
			w.spoil(i)
		}
	}
	if limited {
		for range 1 + rng.IntN(6) {
			h := w.hosts[rng.IntN(2)]
			h.limits = append(h.limits, limit{time.Duration(logUniform(rng, 20_000_000)), 1 + rng.IntN(h.cfg.Credits)})
		}
		for _, h := range w.hosts { // a dropped call keeps its credit, which could be the only one
			for _, p := range h.svc.plans {
				if p.end == endDrop {
					p.end = endReply
				}
			}
		}
	}
	if rng.IntN(6) == 0 {
		h := w.hosts[rng.IntN(2)]
		h.leave, h.abort = time.Duration(logUniform(rng, 200_000_000)), rng.IntN(2) == 0
	}
	return w
}

// planCalls chooses the calls of a side, which svc serves.
func (w *world) planCalls(side int, svc *service) {
	h := w.hosts[side]
	rng := newRand(w.seed, purposeCalls+uint64(side))
	inline := min(w.hosts[0].cfg.InlineSize, w.hosts[1].cfg.InlineSize)
	borders := []int{inline, inline, 4096, 8192, 65536}
	xid := uint32(w.seed)<<12 | uint32(side)<<11
	add := func(p *plan) *plan {
		xid++
		p.xid = xid
		svc.plans[xid] = p
		return p
	}
	spread := logUniform(rng, 30_000_000)
	drops := 0
	callers := 1 + rng.IntN(8)
	if w.slow {
		callers = slowCredits
	}
	for c := range callers {
		var calls []*plan
		for range 1 + rng.IntN(6) {
			p := add(choosePlan(rng, borders, spread))
			if w.slow && side == 0 {
				burst(p)
			}
			if p.end == endDrop {
				if drops++; drops > 1 || h.cfg.Credits < 4 || w.hosts[1-side].cfg.Credits < 4 {
					p.end = endReply // a dropped call keeps its credit
				}
			}
			calls = append(calls, p)
		}
		if c == 0 { // one side must begin: a responder MUST NOT
			calls = append([]*plan{add(&plan{item: -1})}, calls...)
		}
		h.calls = append(h.calls, calls)
	}
	for range 1 + min(w.hosts[0].cfg.Credits, w.hosts[1].cfg.Credits) {
		h.probes = append(h.probes, add(&plan{item: -1, end: endHold}))
	}
	h.probes[0].end = endReply
}

func choosePlan(rng *rand.Rand, borders []int, spread int) *plan {
	p := &plan{start: time.Duration(rng.IntN(spread)), item: -1}
	if rng.IntN(3) == 0 {
		p.args = someSize(rng, borders)
	}
	for range rng.IntN(4) {
		if rng.IntN(3) > 0 {
			p.items = append(p.items, someSize(rng, borders))
		}
	}
	if rng.IntN(3) == 0 {
		p.results = someSize(rng, borders)
	}
	if rng.IntN(2) == 0 {
		p.item, p.sink = someSize(rng, borders), rng.IntN(3) > 0
	}
	if rng.IntN(2) == 0 {
		p.late = time.Duration(logUniform(rng, 20_000_000))
	}
	if rng.IntN(5) == 0 {
		p.limit, p.byExpiry = time.Duration(logUniform(rng, 40_000_000)), rng.IntN(2) == 0
	}
	switch rng.IntN(30) {
	case 0:
		p.end = endReject
	case 1:
		p.end = endDrop
		// after the call that begins: the only credit would be lost permanently
		p.start = max(p.start, 1)
		p.limit = time.Duration(logUniform(rng, 40_000_000))
	case 2:
		if p.item >= 0 {
			p.end = endTooLong
		}
	}
	return p
}

// eventful reports whether the seed itself ends the connection.
func (w *world) eventful() bool {
	return w.link.isBroken() || w.link.hasStalled() || w.hosts[0].leave > 0 || w.hosts[1].leave > 0
}
