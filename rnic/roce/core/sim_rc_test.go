// The simulation for RC: all requests are executed once, in order, or both QPs end.

package core

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

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
	atomics      uint64 // requested atomics, each adding one
	added        uint64 // completed atomics
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
