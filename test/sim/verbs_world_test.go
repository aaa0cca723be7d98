// The world of bare verbs: the work that both sides post, its memory, and the expected result.

package sim

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
)

// Sizes of the memory of one side.
const (
	targetSize = 96 << 10
	spareSize  = 4 << 10
	spares     = 6
	sendSize   = 24 << 10
)

// A work is one work request with its state.
type work struct {
	wr    rnic.SendWR
	data  []byte // its payload, or the expected content of its sink
	sink  []byte
	at    int // Write: offset in the target
	spare int // Write, Send with Invalidate: number of the peer's spare; -1: none
}

// A peer is one side: its memory, its work, its completions.
type peer struct {
	w          *verbsWorld
	side       int
	dev        *rnic.Device
	pd         *rnic.PD
	qp         *rnic.QP
	scq, rcq   *rnic.CQ
	target     []byte // remote writes
	source     []byte // remote reads
	spare      [spares][]byte
	targetMR   *rnic.MR
	sourceMR   *rnic.MR
	spareMR    [spares]*rnic.MR
	script     []*work
	sends      []*work // of script
	reads      []*work // likewise
	batches    []int   // how many are posted at once
	pauses     []time.Duration
	polls      bool // completions are polled, not notified
	revoke     time.Duration
	recvs      [][]byte
	connectErr error
	markers    bool // it asks for markers
	crc        rnic.CRCMode
	forged     *work // a Read that is answered early

	mu      sync.Mutex
	posted  int // of script
	next    int // of script: the first without its completion
	got     int // receives that have completed
	flushed bool
	revoked bool
	drained chan struct{} // closed when all completions of both queues are in
}

// A verbsWorld is one run of a seed.
type verbsWorld struct {
	seed  uint64
	rng   *rand.Rand
	peers [2]*peer
	link  *link
	obs   *observer
	rtr   iwarp.RTR // A's offer at the start; 0: the client-server model
	bad   bool      // one of the works must end the connection
	leave time.Duration
	faults
	forgeries atomic.Int32
	damaged   atomic.Bool // a bit of an FPDU was changed on its way
}

func newVerbsWorld(seed uint64) *verbsWorld {
	w := &verbsWorld{seed: seed, rng: newRand(seed, purposeWorld)}
	w.obs = newObserver(w.fail)
	rng := w.rng
	crc := []rnic.CRCMode{rnic.CRCOn, rnic.CRCOff, rnic.CRCAuto}
	for i := range w.peers {
		cfg := rnic.DeviceConfig{CRC: crc[rng.IntN(3)], Markers: rng.IntN(3) == 0}
		if cfg.CRC == rnic.CRCOn && newRand(seed, purposeStrict+uint64(i)).IntN(4) == 0 {
			cfg.CRC = rnic.CRCStrict
		}
		cfg.MaxIRD, cfg.MaxORD = logUniform(rng, 16), logUniform(rng, 16)
		w.peers[i] = newPeer(w, i, cfg)
	}
	for i, p := range w.peers {
		p.plan(w.peers[1-i], newRand(seed, purposeCalls+uint64(i)))
	}
	for i, p := range w.peers {
		p.prepare(w.peers[1-i])
	}
	if rng.IntN(8) == 0 {
		w.peers[rng.IntN(2)].revoke = time.Duration(logUniform(rng, 40_000_000))
	}
	if rng.IntN(8) == 0 {
		w.leave = time.Duration(logUniform(rng, 100_000_000))
	}
	// a Send would use a receive
	w.rtr = iwarp.RTR(newRand(seed, purposeRTR).IntN(4)) & (iwarp.RTRWrite | iwarp.RTRRead)
	w.obs.ulp = &verbsWire{w: w}
	w.link = newLink(chooseLink(rng, seed, 10*time.Minute), w.obs)
	for _, p := range w.peers {
		w.planForgery(p)
	}
	w.planDamage(newRand(seed, purposeDamage))
	return w
}

func newPeer(w *verbsWorld, side int, cfg rnic.DeviceConfig) *peer {
	rng := w.rng
	p := &peer{w: w, side: side, dev: iwarp.Open(cfg), polls: rng.IntN(2) == 0, drained: make(chan struct{}), markers: cfg.Markers, crc: cfg.CRC}
	p.pd = p.dev.AllocPD()
	p.target, p.source = make([]byte, targetSize), content(targetSize, uint32(side), 99)
	p.targetMR, _ = p.pd.RegMR(p.target, rnic.RemoteWrite)
	p.sourceMR, _ = p.pd.RegMR(p.source, rnic.RemoteRead)
	for i := range p.spare {
		p.spare[i] = make([]byte, spareSize)
		p.spareMR[i], _ = p.pd.RegMR(p.spare[i], rnic.RemoteWrite)
	}
	return p
}

// plan chooses the work of p, which is for the memory of to.
func (p *peer) plan(to *peer, rng *rand.Rand) {
	gone := 0 // spares that have been invalidated
	for n := 2 + rng.IntN(40); len(p.script) < n; {
		op := rnic.Opcode(rng.IntN(int(rnic.OpLocalInvalidate) + 1))
		if len(p.script) == 0 && p.side == 0 {
			op = rnic.OpSend // one side must begin: a responder MUST NOT
		}
		x := &work{spare: -1, wr: rnic.SendWR{ID: uint64(len(p.script)), Op: op, Unsignaled: rng.IntN(3) == 0, Fence: rng.IntN(5) == 0}}
		switch op {
		case rnic.OpSendInvalidate, rnic.OpSendSEInvalidate:
			if gone == spares {
				continue
			}
			x.spare = gone
			x.wr.Invalidate = to.spareMR[gone].STag()
			gone++
			fallthrough
		case rnic.OpSend, rnic.OpSendSE:
			x.data = content(8+someSize(rng, []int{1400, 4096})%(sendSize-8), uint32(rng.IntN(1<<20)), 1)
			binary.BigEndian.PutUint64(x.data, x.wr.ID)
		case rnic.OpWrite:
			p.planWrite(x, to, gone, rng)
		case rnic.OpRead, rnic.OpReadInvalidate:
			n := someSize(rng, []int{1400, 65536}) % targetSize
			at := rng.IntN(targetSize - n)
			x.data, x.sink = bytes.Clone(to.source[at:at+n]), make([]byte, n)
			x.wr.MR, _ = p.pd.RegMR(x.sink, rnic.LocalWrite)
			x.wr.Length, x.wr.RemoteSTag, x.wr.RemoteTO = uint32(n), to.sourceMR.STag(), to.sourceMR.Base()+uint64(at)
		case rnic.OpLocalInvalidate:
			x.wr.MR, _ = p.pd.RegMR(make([]byte, 8), rnic.RemoteWrite)
		}
		p.script = append(p.script, x)
	}
	if rng.IntN(6) == 0 {
		p.w.bad = true
		p.spoil(to, rng)
	}
	p.script[len(p.script)-1].wr.Unsignaled = false
	for _, x := range p.script {
		if x.wr.Op <= rnic.OpSendSEInvalidate {
			p.sends = append(p.sends, x)
		}
		if x.wr.Op == rnic.OpRead || x.wr.Op == rnic.OpReadInvalidate {
			p.reads = append(p.reads, x)
		}
	}
	for left := len(p.script); left > 0; {
		n := min(left, 1+rng.IntN(6))
		left -= n
		p.batches = append(p.batches, n)
		p.pauses = append(p.pauses, time.Duration(rng.IntN(2)*logUniform(rng, 5_000_000)))
	}
}

func (p *peer) planWrite(x *work, to *peer, gone int, rng *rand.Rand) {
	if rng.IntN(4) == 0 && gone < spares {
		x.spare = gone + rng.IntN(spares-gone)
		n := rng.IntN(spareSize)
		x.at = rng.IntN(spareSize - n)
		x.data = content(n, uint32(rng.IntN(1<<20)), 2)
		x.wr.RemoteSTag, x.wr.RemoteTO = to.spareMR[x.spare].STag(), to.spareMR[x.spare].Base()+uint64(x.at)
		return
	}
	n := someSize(rng, []int{1400, 65536}) % targetSize
	x.at = rng.IntN(targetSize - n)
	x.data = content(n, uint32(rng.IntN(1<<20)), 2)
	x.wr.RemoteSTag, x.wr.RemoteTO = to.targetMR.STag(), to.targetMR.Base()+uint64(x.at)
}

// spoil replaces the last work in the script by a Write or Read that the peer must refuse.
func (p *peer) spoil(to *peer, rng *rand.Rand) {
	x := p.script[len(p.script)-1]
	sink := make([]byte, 64)
	mr, _ := p.pd.RegMR(sink, rnic.LocalWrite)
	*x = work{spare: -2, data: make([]byte, 64), wr: rnic.SendWR{ID: x.wr.ID, Op: rnic.OpWrite}}
	switch rng.IntN(4) {
	case 0: // one byte too many
		x.wr.RemoteSTag, x.wr.RemoteTO = to.targetMR.STag(), to.targetMR.Base()+targetSize-63
	case 1: // no right
		x.wr.RemoteSTag, x.wr.RemoteTO = to.sourceMR.STag(), to.sourceMR.Base()
	case 2:
		x.wr.RemoteSTag, x.wr.RemoteTO = to.targetMR.STag()^1, to.targetMR.Base()
	case 3:
		x.wr.Op, x.wr.MR, x.wr.Length, x.sink = rnic.OpRead, mr, 64, sink
		x.wr.RemoteSTag, x.wr.RemoteTO = to.targetMR.STag(), to.targetMR.Base()
	}
}

// prepare makes the queues, posts a receive for each Send of the other side, and cuts payloads into
// pieces.
func (p *peer) prepare(from *peer) {
	rng := p.w.rng
	p.scq, p.rcq = p.dev.NewCQ(256), p.dev.NewCQ(256)
	depth := 6 + rng.IntN(20)
	p.qp, _ = p.pd.CreateQP(rnic.QPConfig{SendCQ: p.scq, RecvCQ: p.rcq, SQDepth: depth, RQDepth: 64})
	for i := range from.sends {
		b := make([]byte, sendSize)
		if err := p.qp.PostRecv(rnic.RecvWR{ID: uint64(i), Buf: b}); err != nil {
			p.w.fail("receive: %v", err)
		}
		p.recvs = append(p.recvs, b)
	}
	for _, x := range p.script {
		if x.wr.Op > rnic.OpWrite {
			continue
		}
		payload := append([]byte(nil), x.data...)
		for len(payload) > 0 && len(x.wr.SGL) < 3 {
			n := rng.IntN(len(payload) + 1)
			x.wr.SGL = append(x.wr.SGL, payload[:n:n])
			payload = payload[n:]
		}
		x.wr.SGL = append(x.wr.SGL, payload)
	}
}
