// The services over a network that loses, duplicates, delays, reorders and damages datagrams, in
// virtual time. Each service's promises hold for every seed, and each seed is reproducible.

package core

import (
	"container/heap"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A faults is a network's treatment of datagrams: chances in 1/1000, and times.
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

// chance is true with probability n/1000.
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

// All requests between two RC QPs are executed once, in order, on any network. If the network
// fails completely, both QPs end, and all work completes.
func TestSimulatedRC(t *testing.T) { simSeeds(t, simulateRC) }

// A workload is one side's requests to the other, and their observed results.
type workload struct {
	s     *side
	other *workload

	posted, done int // numbers of work requests
	kinds        []rnic.Opcode
	sinks        map[int][]byte // Read sinks, by ID
	froms        map[int]int
	messages     []message // messages that consume a receive, in order
	heard        int       // the peer's messages received
	recvs        int       // posted receives
	recvDone     int
	source, dest []byte // memory that the peer reads and writes
	srcMR, dstMR *rnic.MR
	sinkMR       *rnic.MR
	sinkMem      []byte
	counter      []byte
	ctrMR        *rnic.MR
	atomics      uint64 // requested atomics, each adding one,
	added        uint64 // and completed ones
	flushed      bool
	bufs         [][]byte
	wrote        int // the peer's slots written, in order
	slots        []int
}

// A message completes one of the peer's receives.
type message struct {
	op      rnic.Opcode
	n, seed int
	imm     uint32
	writes  int       // slots written before it
	ends    rnic.STag // the peer's STag, invalid afterwards
}

const (
	simSlot  = 3000
	simSlots = 40
)

func newStory(t *testing.T, s *side) *workload {
	st := &workload{s: s, sinks: map[int][]byte{}, froms: map[int]int{}}
	st.srcMR, st.source = s.host.region(t, 20_000, rnic.RemoteRead)
	copy(st.source, pattern(20_000, int(s.qp.num)+int(s.host.addr.As4()[3])))
	st.dstMR, st.dest = s.host.region(t, simSlot*simSlots, rnic.RemoteWrite)
	st.sinkMR, st.sinkMem = s.host.region(t, 200*simSlot, rnic.LocalWrite)
	st.ctrMR, st.counter = s.host.region(t, 8, rnic.RemoteAtomic)
	return st
}

// ask posts one work request chosen by the seed.
func (st *workload) ask(w *world) {
	id, peer := st.posted, st.other
	wr := rnic.SendWR{ID: uint64(id)}
	n := []int{0, 1, 100, 256, 700, 2999}[w.r.IntN(6)]
	switch k := w.r.IntN(10); {
	case k < 4:
		wr.Op = []rnic.Opcode{rnic.OpSend, rnic.OpSendSE, rnic.OpSendImmediate, rnic.OpSendInvalidate}[w.r.IntN(4)]
		wr.SGL, wr.Immediate, wr.Fence = pieces(pattern(n, id)), uint64(id)*7, w.chance(300)
		if wr.Op == rnic.OpSendInvalidate {
			mr, _ := peer.s.host.region(st.s.t, 8, rnic.RemoteRead)
			wr.Invalidate = mr.STag()
		}
	case k < 6 && st.wrote < simSlots:
		wr.Op = rnic.OpWrite
		if k == 5 {
			wr.Op = rnic.OpWriteImmediate
		}
		wr.SGL, wr.Immediate = pieces(pattern(n, id)), uint64(id)*7
		wr.RemoteSTag, wr.RemoteTO = peer.dstMR.STag(), peer.dstMR.Base()+uint64(st.wrote*simSlot)
		st.slots = append(st.slots, n<<16|id)
		st.wrote++
	case k < 9:
		from := w.r.IntN(20_000 - n)
		wr.Op, wr.MR, wr.Offset, wr.Length = rnic.OpRead, st.sinkMR, uint64(id*simSlot), uint32(n)
		wr.RemoteSTag, wr.RemoteTO = peer.srcMR.STag(), peer.srcMR.Base()+uint64(from)
		st.sinks[id], st.froms[id] = st.sinkMem[id*simSlot:id*simSlot+n], from
	default:
		wr.Op, wr.Atomic = rnic.OpFetchAdd, &rnic.Atomic{Data: 1}
		if w.chance(500) { // executed once and in order, or the counter differs
			wr.Op, wr.Atomic = rnic.OpCmpSwap, &rnic.Atomic{Compare: st.atomics, Data: st.atomics + 1, Mask: 1<<64 - 1, CompareMask: 1<<64 - 1}
		}
		st.atomics++
		wr.RemoteSTag, wr.RemoteTO = peer.ctrMR.STag(), peer.ctrMR.Base()
	}
	if wr.Op == rnic.OpSend || wr.Op == rnic.OpSendSE || wr.Op == rnic.OpSendInvalidate || wr.Op.CarriesImmediate() {
		st.messages = append(st.messages, message{wr.Op, n, id, uint32(wr.Immediate), st.wrote, wr.Invalidate})
	}
	st.kinds = append(st.kinds, wr.Op)
	if err := st.s.vqp.PostSend(wr); err != nil {
		if st.s.qp.Ended() == nil {
			st.s.t.Errorf("post: %v", err)
		}
		return
	}
	st.posted++
}

// listen posts n receives.
func (st *workload) listen(n int) {
	for range n {
		b := make([]byte, simSlot)
		if err := st.s.vqp.PostRecv(rnic.RecvWR{ID: uint64(st.recvs), Buf: b}); err != nil {
			return
		}
		st.bufs = append(st.bufs, b)
		st.recvs++
	}
}

// look polls the CQ and compares completions with requests.
func (st *workload) look(t *testing.T) {
	for _, wc := range st.s.completions() {
		if wc.Status != rnic.WCSuccess {
			if st.s.qp.Ended() == nil {
				t.Errorf("%v on a QP that is well", wc)
			}
			st.flushed = true
		}
		if wc.Op == rnic.OpRecv || wc.Op == rnic.OpRecvWrite {
			st.hear(t, wc)
			continue
		}
		if int(wc.ID) != st.done || wc.Op == rnic.OpRecv {
			t.Errorf("%v: completed out of order, %d is next", wc, st.done)
		}
		st.done++
		if wc.Status != rnic.WCSuccess {
			continue
		}
		if st.flushed {
			t.Errorf("%v after one that failed", wc)
		}
		switch op := st.kinds[wc.ID]; op {
		case rnic.OpRead:
			from := st.froms[int(wc.ID)]
			if string(st.sinks[int(wc.ID)]) != string(st.other.source[from:from+int(wc.Len)]) {
				t.Errorf("Read %d has other bytes", wc.ID)
			}
		case rnic.OpFetchAdd, rnic.OpCmpSwap:
			if wc.Value != st.added {
				t.Errorf("atomic %d found %d, want %d", wc.ID, wc.Value, st.added)
			}
			st.added++
		}
	}
}

// hear checks a receive: it is the peer's next complete message, and the Writes before it are in
// place.
func (st *workload) hear(t *testing.T, wc rnic.WC) {
	if int(wc.ID) != st.recvDone {
		t.Errorf("%v: receives out of order", wc)
	}
	st.recvDone++
	if wc.Status != rnic.WCSuccess {
		return
	}
	if st.heard >= len(st.other.messages) {
		t.Errorf("%v: nothing was sent", wc)
		return
	}
	m := st.other.messages[st.heard]
	st.heard++
	if int(wc.Len) != m.n || wc.Immediate != m.op.CarriesImmediate() || wc.Immediate && uint32(wc.Value) != m.imm || wc.Invalidated != m.ends {
		t.Errorf("%v, want message %+v", wc, m)
	}
	if wc.Op == rnic.OpRecv && string(st.bufs[wc.ID][:wc.Len]) != string(pattern(m.n, m.seed)) {
		t.Errorf("%v: other bytes than message %+v", wc, m)
	}
	st.checkSlots(t, m.writes)
}

func (st *workload) checkSlots(t *testing.T, n int) {
	for i, slot := range st.other.slots[:n] {
		size, id := slot>>16, slot&0xffff
		if string(st.dest[i*simSlot:i*simSlot+size]) != string(pattern(size, id)) {
			t.Errorf("Write %d is not in place", id)
		}
	}
}

// disturb does something temporary to a QP: it drains the send queue for a while, or a switch
// reports congestion.
func (st *workload) disturb(w *world) {
	qp := st.s.qp
	switch state := st.s.state(); {
	case state == RTS && w.chance(20):
		_ = qp.Modify(SQD, 0, Attrs{})
	case state == SQD && w.chance(200):
		_ = qp.Modify(RTS, 0, Attrs{})
	}
	if w.chance(10) {
		st.s.take(built(st.other.s.host.addr, st.s.host.addr,
			packet.Header{BTH: packet.BTH{Opcode: packet.CNP, PKey: 0xffff, BECN: true, DestQP: qp.num}}, make([]byte, 16)))
	}
}

func simulateRC(t *testing.T, seed uint64) { simulateRCWith(t, seed, [2]credits{}) }

func simulateRCWith(t *testing.T, seed uint64, does [2]credits) {
	r := rand.New(rand.NewPCG(seed, 1))
	h := someHarm(r)
	if r.IntN(8) == 0 {
		h.dead = Instant(r.IntN(5_000_000))
	}
	psn := []uint32{0, 0xfffff0, 0x7ffff8, r.Uint32() & maxPSN}[r.IntN(4)]
	reads := 1 + r.IntN(6)
	a, b := reliables(t, []int{256, 1024}[r.IntN(2)], psn, func(at *Attrs) {
		at.MaxReads, at.MaxDestReads = reads, reads
		at.Timeout = 8
		at.ObeyCredits, at.GiveCredits = does[0].obeys, does[0].gives
		does[0], does[1] = does[1], does[0] // the other side is next
	})
	w := newWorld(t, seed, a, b, h)
	sa, sb := newStory(t, a), newStory(t, b)
	sa.other, sb.other = sb, sa
	w.receives, w.needed = map[*side]func() int{}, map[*side]int{}
	for i, st := range []*workload{sa, sb} {
		if does[i].obeys && does[1-i].gives {
			w.receives[st.s] = func() int { return st.other.recvs }
		}
	}
	stories := []*workload{sa, sb}
	limit := 20 + r.IntN(100)
	for steps := 0; ; steps++ {
		for _, st := range stories {
			for range r.IntN(4) {
				if len(st.kinds) < limit {
					st.ask(w)
				}
			}
			if r.IntN(3) == 0 && st.recvs < 250 {
				st.listen(r.IntN(12))
			}
			st.disturb(w)
		}
		asked := len(sa.kinds) == limit && len(sb.kinds) == limit
		enough := sa.recvs >= len(sb.messages) && sb.recvs >= len(sa.messages) || a.qp.Ended() != nil || b.qp.Ended() != nil
		if !w.step() && asked && enough && a.state() != SQD && b.state() != SQD {
			break
		}
		sa.look(t)
		sb.look(t)
		if t.Failed() {
			return
		}
		if steps > 200_000 {
			t.Errorf("no end: %v and %v of %v done, harm %+v", sa.done, sb.done, limit, h)
			return
		}
	}
	finishRC(t, stories, h)
}

// finishRC checks that all work succeeded, or that the QP has ended and all work completed.
func finishRC(t *testing.T, stories []*workload, h faults) {
	for _, st := range stories {
		st.look(t)
		err := st.s.qp.Ended()
		// With a loss of one in ten, a packet or its answer can be lost eight times in a row by
		// chance.
		hopeless := h.dead != 0 || h.lose+h.damage > 50
		switch {
		case !hopeless && err != nil:
			t.Errorf("ended with %v, harm %+v", err, h)
		case err == nil:
			if st.done != st.posted || st.s.qp.Outstanding() {
				t.Errorf("%d of %d done, harm %+v", st.done, st.posted, h)
			}
			if h.dead == 0 {
				if st.heard != len(st.other.messages) {
					t.Errorf("%d of %d messages heard", st.heard, len(st.other.messages))
				}
				st.checkSlots(t, len(st.other.slots))
			}
		case !errors.Is(err, ErrRetry):
			t.Errorf("ended with %v", err)
		case st.done != st.posted || st.recvDone != st.recvs:
			t.Errorf("%d of %d came back, and %d of %d receives", st.done, st.posted, st.recvDone, st.recvs)
		}
		if len(st.s.qp.res.ring) > 4*6+8+8 {
			t.Errorf("%d answers", len(st.s.qp.res.ring))
		}
	}
}
