// Disturbances for a pair of QPs beside their work: samples at moments of rest, and unrequested
// answers.

package sim

import (
	"math/rand/v2"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// looks is the number of times at which a run is examined: moments when only the passing of time
// changes anything.
const looks = 12

// sample checks repeatedly until the work has ended. At rest no completion waits in a queue that
// has a waiter, however full the sockets are.
func (w *verbsWorld) sample(done <-chan struct{}) {
	rng := newRand(w.seed, purposeSample)
	for range looks {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(logUniform(rng, int(10*time.Second)))):
		}
		synctest.Wait()
		for _, p := range w.peers {
			p.wantTold()
		}
	}
}

// wantTold reports completions that are left in the queues without a notification, and processes
// them.
func (p *peer) wantTold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var wcs [1]rnic.WC
	for p.scq.Poll(wcs[:]) > 0 {
		p.w.fail("%c: nobody is told of the completion of %d", 'A'+p.side, wcs[0].ID)
		p.sendDone(wcs[0])
	}
	for p.rcq.Poll(wcs[:]) > 0 {
		p.w.fail("%c: nobody is told of receive %d", 'A'+p.side, wcs[0].ID)
		p.recvDone(wcs[0])
	}
}

// planForgery may choose a Read from p's script. An attacker with knowledge of the Read's sink
// answers it before p requests it.
func (w *verbsWorld) planForgery(p *peer) {
	rng := newRand(w.seed, purposeForgery+uint64(p.side))
	if rng.IntN(4) > 0 || w.peers[p.side].dev.Caps().MaxORD == 0 || p.markers {
		return
	}
	var reads []*work
	for _, x := range p.script {
		if (x.wr.Op == rnic.OpRead || x.wr.Op == rnic.OpReadInvalidate) && x.spare == -1 && len(x.data) < 1000 {
			reads = append(reads, x)
		}
	}
	if len(reads) == 0 {
		return
	}
	p.forged = reads[rng.IntN(len(reads))]
	w.link.ends[1-p.side].out.tamper = &tamper{reply: p.side == 0}
}

// planDamage may choose an FPDU in which one bit is changed on its way, where CRCs find it.
func (w *verbsWorld) planDamage(rng *rand.Rand) {
	from := rng.IntN(2)
	asks := func(p *peer) bool { return p.crc == rnic.CRCOn || p.crc == rnic.CRCStrict }
	if rng.IntN(4) > 0 || w.peers[1-from].markers || !asks(w.peers[0]) && !asks(w.peers[1]) {
		return
	}
	out := w.link.ends[from].out
	if out.tamper == nil {
		out.tamper = &tamper{reply: from == 1}
	}
	out.tamper.damage, out.tamper.where = logUniform(rng, 60), rng.Uint32()
	if rng.IntN(2) == 0 { // a segment that is placed as it comes
		out.tamper.damage, out.tamper.least = 1+rng.IntN(6), 17<<10
	}
	out.tamper.told = func() { // with the link's lock
		w.damaged.Store(true)
		w.obs.close()
	}
}

// forge sends the answer to x, which p is about to post.
func (p *peer) forge(x *work) {
	l := p.w.link
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.ends[p.side].in
	if in.fin || in.err != nil || !in.tamper.framed {
		return
	}
	p.w.forgeries.Add(1)
	in.inject(readResponse(uint32(x.wr.MR.STag()), x.wr.MR.Base()+x.wr.Offset, x.data))
	if len(in.sent) < in.window/2 { // it is there at once
		in.here = append(in.here, in.sent...)
		in.carried += len(in.sent)
		in.sent = nil
		in.arrived.Broadcast()
	}
}
