// Three hosts over a network that loses, duplicates and reorders datagrams, in virtual time. The
// connections' promises hold for every seed, and each seed is reproducible.

package cm

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// Each state change in this package's tests is one of the drawing's arrows.
func init() {
	stateHook = func(k *Conn, to state) {
		if !slices.Contains(next[k.state], to) {
			panic(fmt.Sprintf("%v became %v", k, to))
		}
	}
}

// A flight is a datagram in flight, or a host's later action.
type flight struct {
	at    Instant
	order int
	do    func()
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

// A world is a set of hosts and the network between them.
type world struct {
	t            *testing.T
	r            *rand.Rand
	now          Instant
	air          flights
	order        int
	hosts        map[netip.Addr]*host
	sides        []*host
	lose, double int // chances in 1/1000
	jitter       Instant
	qpn          uint32
	ends         map[uint32]*end // by QPN, which is unique in the world
}

// A host is a side, and the connection ends known to its owner.
type host struct {
	*side
	w    *world
	ends map[*Conn]*end
}

// An end is an owner's view of one of its connections.
type end struct {
	h                              *host
	k                              *Conn
	local, remote                  uint32 // QPNs
	established, ended, gone, left bool   // left: this side's wish
	err                            error
	sidr                           bool
}

func (w *world) later(d Instant, do func()) {
	w.order++
	heap.Push(&w.air, flight{w.now + d, w.order, do})
}

func (w *world) chance(n int) bool { return w.r.IntN(1000) < n }

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 34)), hosts: make(map[netip.Addr]*host), ends: make(map[uint32]*end), qpn: 16}
	if w.r.IntN(3) > 0 {
		w.lose, w.double = w.r.IntN(150), w.r.IntN(100)
		w.jitter = Instant(w.r.IntN(3000)) * millisecond
	}
	for i, a := range []netip.Addr{addrA, addrB, addrC} {
		h := &host{side: newSide(t, a, seed+uint64(i)<<40), w: w, ends: make(map[*Conn]*end)}
		w.hosts[a], w.sides = h, append(w.sides, h)
		must.Succeed(t, h.cm.Listen(service))
		must.Succeed(t, h.cm.Listen(sidrIP))
	}
	return w
}

// step runs the next event, and reports whether there was one.
func (w *world) step() bool {
	at, any := Instant(0), len(w.air) > 0
	if any {
		at = w.air[0].at
	}
	for _, h := range w.sides {
		if due, ok := h.cm.NextDeadline(); ok && (!any || due < at) {
			at, any = due, true
		}
	}
	if !any {
		return false
	}
	w.now = max(w.now, at)
	for _, h := range w.sides {
		h.cm.Advance(w.now)
		h.collect()
	}
	if len(w.air) > 0 && w.air[0].at <= w.now {
		heap.Pop(&w.air).(flight).do()
	}
	for _, h := range w.sides {
		h.collect()
	}
	return true
}

// collect puts a host's datagrams on the wire, and handles events like its owner.
func (h *host) collect() {
	w := h.w
	for _, d := range h.sent() {
		to := w.hosts[d.To]
		copies := 1
		if w.chance(w.double) {
			copies = 2
		}
		for range copies {
			if w.chance(w.lose) {
				continue
			}
			w.later(millisecond+Instant(w.r.Int64N(int64(w.jitter)+1)), func() { to.cm.Receive(w.now, h.addr, d.MAD[:]) })
		}
	}
	for _, e := range h.told() {
		h.event(e)
	}
	if s := len(h.events) + len(h.out); s > 0 {
		h.collect()
	}
}

func (w *world) newQPN() uint32 { w.qpn++; return w.qpn }

func (h *host) event(e Event) {
	w, x := h.w, h.ends[e.Conn]
	if x == nil {
		if e.Kind != Requested && e.Kind != Asked {
			w.t.Errorf("%v of a connection that nobody knows", e.Kind)
			return
		}
		x = &end{h: h, k: e.Conn, sidr: e.Kind == Asked}
		h.ends[e.Conn] = x
	}
	if x.gone || x.ended && e.Kind != Released {
		w.t.Errorf("%v: %v after its end", e.Conn, e.Kind)
	}
	switch e.Kind {
	case Requested, Asked:
		x.remote = e.Remote.QPN
		w.later(Instant(w.r.IntN(1500))*millisecond, x.answer)
	case Replied:
		x.remote = e.Remote.QPN
		if w.chance(50) {
			x.leave()
			return
		}
		must.Succeed(w.t, h.cm.Confirm(w.now, e.Conn, nil))
	case Established:
		x.established = true
		x.checkPair()
		if e.Conn.Active() {
			for i := range 5 {
				w.later(Instant(i)*100*millisecond, x.data)
			}
		}
		if w.chance(700) {
			w.later(Instant(w.r.IntN(20_000))*millisecond, x.leave)
		}
	case Ended:
		x.ended, x.err = true, e.Err
	case Released:
		x.gone = true
	}
}

// answer lets the owner answer a request: with Accept, Reject or SIDR, or not at all.
func (x *end) answer() {
	w, cm := x.h.w, x.h.cm
	switch {
	case x.ended || w.chance(30): // the program sleeps
	case x.sidr:
		must.Succeed(w.t, cm.Answer(w.now, x.k, mad.SIDRStatus(w.r.IntN(2)), 0x77, 1, nil))
	case w.chance(200):
		must.Succeed(w.t, cm.Reject(w.now, x.k, mad.RejConsumer, []byte("no")))
	default:
		x.local = w.newQPN()
		w.ends[x.local] = x
		must.Succeed(w.t, cm.Accept(w.now, x.k, QP{QPN: x.local, PSN: 7}, nil))
	}
}

// leave makes this side request to disconnect, once.
func (x *end) leave() {
	if !x.ended && !x.left && !x.gone {
		x.left = true
		must.Succeed(x.h.w.t, x.h.cm.Disconnect(x.h.w.now, x.k, nil))
	}
}

// data sends a packet on the queue pair. Unless it is lost, the peer's CM hears of it.
func (x *end) data() {
	w := x.h.w
	if peer := w.ends[x.remote]; peer != nil && !x.ended && !w.chance(w.lose) {
		peer.h.cm.Heard(w.now, peer.k)
	}
}

// checkPair checks that both sides' queue pairs match, and that the passive side is established
// only after the active one.
func (x *end) checkPair() {
	peer := x.h.w.ends[x.remote]
	if peer == nil || peer.remote != x.local || peer.k.Peer() != x.h.addr || peer.k.Active() == x.k.Active() {
		x.h.w.t.Errorf("%v: queue pair %d has %+v for a peer", x.k, x.local, peer)
		return
	}
	if !x.k.Active() && !peer.established {
		x.h.w.t.Errorf("%v: established before its peer has confirmed", x.k)
	}
}

// begin requests a connection, or a SIDR service, from one host to any host.
func (w *world) begin() {
	h, to := w.sides[w.r.IntN(3)], w.sides[w.r.IntN(3)]
	x := &end{h: h, sidr: w.chance(200)}
	r := Request{Peer: to.addr, Service: service, SourcePort: uint16(w.r.IntN(1 << 16))}
	var err error
	if x.sidr {
		r.Service = sidrIP
		x.k, err = h.cm.Resolve(w.now, r)
	} else {
		x.local = w.newQPN()
		w.ends[x.local] = x
		r.Local = QP{QPN: x.local, PSN: w.r.Uint32() & 0xffffff, PathMTU: 3}
		x.k, err = h.cm.Connect(w.now, r)
	}
	must.Succeed(w.t, err)
	h.ends[x.k] = x
	if w.chance(100) {
		w.later(Instant(w.r.IntN(3000))*millisecond, x.leave)
	}
}

// simulate runs one seed.
func simulate(t *testing.T, seed uint64) {
	w := newWorld(t, seed)
	n := 1 + w.r.IntN(12)
	for range n {
		w.later(Instant(w.r.IntN(5000))*millisecond, w.begin)
	}
	for steps := 0; w.step(); steps++ {
		if t.Failed() || steps > 100_000 {
			t.Errorf("%d steps, lose %d, double %d, jitter %d", steps, w.lose, w.double, w.jitter)
			return
		}
	}
	w.checkQuiet(n)
	for _, h := range w.sides {
		for _, x := range h.ends {
			x.leave()
		}
	}
	for w.step() && !t.Failed() {
	}
	for _, h := range w.sides {
		c := h.cm
		if len(c.conns)+len(c.requests)+len(c.pairs)+len(c.sources)+c.halfOpen.Len()+c.timeWait.Len()+len(c.timers) != 0 {
			t.Errorf("%v: something is left: %d connections, %d requests, %d pairs, %d sources", h.addr, len(c.conns), len(c.requests), len(c.pairs), len(c.sources))
		}
		for _, x := range h.ends {
			if !x.gone {
				t.Errorf("%v is not released", x.k)
			}
		}
	}
}

// checkQuiet checks the connections that remain after the last event: they are established and,
// unless too much was lost, so are their peers.
func (w *world) checkQuiet(n int) {
	begun := 0
	for _, h := range w.sides {
		for _, x := range h.ends {
			if x.k.Active() {
				begun++
			}
			if x.gone {
				continue
			}
			if x.k.state != established {
				w.t.Errorf("%v stays", x.k)
			}
			if peer := w.ends[x.remote]; w.lose == 0 && (peer.gone || peer.k.state != established) {
				w.t.Errorf("%v has no other half: %v", x.k, peer.k)
			}
		}
	}
	if begun != n {
		w.t.Errorf("%d of %d began", begun, n)
	}
}

// Every requested connection is established or ends on both sides, with matching queue pairs.
// Released is each connection's last event, and no state remains.
func TestSimulated(t *testing.T) {
	t.Parallel()
	if s := os.Getenv("NFSRDMA_ROCE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		must.Succeed(t, err)
		simulate(t, seed)
		return
	}
	n, _ := strconv.Atoi(os.Getenv("NFSRDMA_SIM_SEEDS"))
	if n == 0 {
		n = 300
	}
	for seed := range uint64(n) {
		if simulate(t, seed); t.Failed() {
			t.Fatalf("again: NFSRDMA_ROCE_SEED=%d go test ./rnic/roce/cm -run '^TestSimulated$'", seed)
		}
	}
}
