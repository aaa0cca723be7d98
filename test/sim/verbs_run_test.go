// Running the world of bare verbs: post, complete in order, end, and compare all memory.

package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// TestVerbs runs many seeds of two QPs with nothing above them, or repeats one seed.
func TestVerbs(t *testing.T) { seeds(t, "TestVerbs", runVerbs) }

func runVerbs(t *testing.T, seed uint64, trace bool) (failures []string) {
	synctest.Test(t, func(t *testing.T) {
		w := newVerbsWorld(seed)
		if trace {
			w.obs.trace = func(format string, args ...any) { fmt.Println(fmt.Sprintf(format, args...)) }
		}
		if w.connect() {
			w.work()
		}
		w.end()
		failures = w.failures
	})
	return failures
}

func (w *verbsWorld) connect() bool {
	a, b := w.peers[0], w.peers[1]
	l := b.dev.ListenOn(listenFor(w.link.ends[1].conn()))
	var both sync.WaitGroup
	both.Go(func() {
		req, err := l.Accept(context.Background())
		if err == nil {
			err = req.Accept(b.qp, rnic.ConnParams{})
		}
		b.connectErr = err
	})
	a.connectErr = a.dev.ConnectOver(context.Background(), a.qp, w.link.ends[0].conn(), rnic.ConnParams{Provider: iwarp.ConnOptions{RTR: w.rtr}})
	if a.connectErr != nil {
		time.Sleep(parting)
		l.Close()
	}
	both.Wait()
	l.Close()
	for _, p := range w.peers {
		if p.connectErr != nil && !w.link.isBroken() && !w.damaged.Load() {
			w.fail("%c does not connect: %v", 'A'+p.side, p.connectErr)
		}
	}
	return a.connectErr == nil && b.connectErr == nil
}

// eventful reports whether the seed ends the connection.
func (w *verbsWorld) eventful() bool {
	return w.link.isBroken() || w.bad || w.damaged.Load() || w.forgeries.Load() > 0 || w.leave > 0 || w.peers[0].revoke > 0 || w.peers[1].revoke > 0
}

// work posts everything and waits until it has completed.
func (w *verbsWorld) work() {
	var all sync.WaitGroup
	for _, p := range w.peers {
		p.listen(&all)
		all.Go(func() { p.post() })
		if p.revoke > 0 {
			all.Go(func() { p.takeBack() })
		}
	}
	if w.leave > 0 {
		all.Go(func() { time.Sleep(w.leave); w.peers[w.rng.IntN(2)].qp.Close() })
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	var sampled sync.WaitGroup
	defer sampled.Wait()
	sampled.Go(func() { w.sample(done) })
	select {
	case <-done:
	case <-time.After(patience):
		w.fail("work does not end: %d and %d have", w.peers[0].next, w.peers[1].next)
		w.peers[0].qp.Close()
		w.peers[1].qp.Close()
		<-done
	}
}

// listen processes completions until all have arrived.
func (p *peer) listen(all *sync.WaitGroup) {
	if !p.polls {
		p.scq.SetHandler(p.takeSends)
		p.rcq.SetHandler(p.takeRecvs)
		all.Go(func() { <-p.drained })
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	for _, q := range []struct {
		cq   *rnic.CQ
		take func()
	}{{p.scq, p.takeSends}, {p.rcq, p.takeRecvs}} {
		all.Go(func() {
			for q.cq.Wait(ctx) == nil {
				q.take()
			}
		})
	}
	all.Go(func() { <-p.drained; cancel() })
}

// post posts the script in its batches. A batch that finds the queue full is posted again.
func (p *peer) post() {
	at := 0
	for i, n := range p.batches {
		time.Sleep(p.pauses[i])
		wrs := make([]rnic.SendWR, n)
		for j := range wrs {
			wrs[j] = p.script[at+j].wr
		}
		p.mu.Lock()
		p.posted += n // before they can complete
		p.mu.Unlock()
		if p.forged != nil && slices.Contains(p.script[at:at+n], p.forged) {
			p.forge(p.forged)
		}
		for pause := time.Microsecond; ; pause = min(2*pause, time.Second) {
			err := p.qp.PostSend(wrs...)
			if err == nil {
				break
			}
			if err != rnic.ErrSQFull {
				if !errors.Is(err, rnic.ErrState) || p.qp.Err() == nil {
					p.w.fail("PostSend: %v", err)
				}
				p.mu.Lock()
				p.posted -= n
				p.script = p.script[:p.posted] // the rest was never posted
				p.mu.Unlock()
				p.wind()
				return
			}
			time.Sleep(pause)
		}
		at += n
	}
}

// wind processes the remaining completions of an ended QP.
func (p *peer) wind() {
	<-p.qp.Done()
	p.takeSends()
	p.takeRecvs()
	p.mu.Lock()
	p.checkDrained(true)
	p.mu.Unlock()
}

// takeBack invalidates the memory that the other side uses, and poisons it.
func (p *peer) takeBack() {
	time.Sleep(p.revoke)
	p.targetMR.Invalidate()
	p.sourceMR.Invalidate()
	poison(p.target)
	poison(p.source)
	p.mu.Lock()
	p.revoked = true
	p.mu.Unlock()
}

// takeSends checks that completions of the send queue come in posting order.
func (p *peer) takeSends() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var wcs [4]rnic.WC
	for n := p.scq.Poll(wcs[:]); n > 0; n = p.scq.Poll(wcs[:]) {
		for _, wc := range wcs[:n] {
			p.sendDone(wc)
		}
	}
	p.checkDrained(false)
}

// sendDone checks one completion. All works before it without a completion must be unsignaled.
func (p *peer) sendDone(wc rnic.WC) {
	for ; p.next < p.posted && uint64(p.next) != wc.ID; p.next++ {
		x := p.script[p.next]
		if !x.wr.Unsignaled {
			p.w.fail("%c: completion of %d where %d is due", 'A'+p.side, wc.ID, p.next)
			return
		}
		p.settled(x, rnic.WCSuccess)
	}
	if p.next == p.posted {
		p.w.fail("%c: completion of %d, a second time or of nothing", 'A'+p.side, wc.ID)
		return
	}
	x := p.script[p.next]
	p.next++
	if wc.Op != x.wr.Op || wc.Status != rnic.WCSuccess && wc.Status != rnic.WCFlushErr || x.wr.Unsignaled && wc.Status == rnic.WCSuccess {
		p.w.fail("%c: completion %+v of %v, unsignaled %v", 'A'+p.side, wc, x.wr.Op, x.wr.Unsignaled)
	}
	p.flushed = p.flushed || wc.Status != rnic.WCSuccess
	p.settled(x, wc.Status)
}

// settled checks the memory of an ended work, and takes the memory back.
func (p *peer) settled(x *work, s rnic.Status) {
	switch {
	case x.wr.Op <= rnic.OpWrite:
		for _, b := range x.wr.SGL {
			// ours again: bytes on their way to the peer must not change by it
			poison(b)
		}
	case s != rnic.WCSuccess:
	case x.sink != nil && !bytes.Equal(x.sink, x.data):
		p.w.fail("%c: Read %d has brought other bytes", 'A'+p.side, x.wr.ID)
	}
	if s == rnic.WCSuccess && (x.wr.Op == rnic.OpReadInvalidate || x.wr.Op == rnic.OpLocalInvalidate) && x.wr.MR.Valid() {
		p.w.fail("%c: %v has left its region valid", 'A'+p.side, x.wr.Op)
	}
}

// takeRecvs compares completions of receives with the Sends of the other side.
func (p *peer) takeRecvs() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var wcs [4]rnic.WC
	for n := p.rcq.Poll(wcs[:]); n > 0; n = p.rcq.Poll(wcs[:]) {
		for _, wc := range wcs[:n] {
			p.recvDone(wc)
		}
	}
	p.checkDrained(false)
}

func (p *peer) recvDone(wc rnic.WC) {
	due := p.got
	p.got++
	if wc.ID != uint64(due) {
		p.w.fail("%c: receive %d where %d is due", 'A'+p.side, wc.ID, due)
	}
	if wc.Status != rnic.WCSuccess {
		return
	}
	x := p.w.peers[1-p.side].sends[due]
	if !bytes.Equal(p.recvs[due][:wc.Len], x.data) {
		p.w.fail("%c: receive %d has other bytes", 'A'+p.side, due)
		return
	}
	se := x.wr.Op == rnic.OpSendSE || x.wr.Op == rnic.OpSendSEInvalidate
	if wc.Solicited != se || wc.Invalidated != x.wr.Invalidate {
		p.w.fail("%c: receive %d of %v: solicited %v, invalidated %x", 'A'+p.side, due, x.wr.Op, wc.Solicited, wc.Invalidated)
	}
	if x.spare >= 0 {
		if p.spareMR[x.spare].Valid() {
			p.w.fail("%c: region %d is valid after its invalidation", 'A'+p.side, x.spare)
		}
	}
}

// checkDrained closes drained when all completions are in. The caller holds mu. over: the QP has
// ended and all its completions have been polled.
func (p *peer) checkDrained(over bool) {
	for ; over && p.next < p.posted; p.next++ {
		if x := p.script[p.next]; !x.wr.Unsignaled {
			p.w.fail("%c: %d has no completion", 'A'+p.side, p.next)
		}
	}
	if over && p.got < len(p.recvs) {
		p.w.fail("%c: %d receives have no completion", 'A'+p.side, len(p.recvs)-p.got)
		p.got = len(p.recvs)
	}
	if p.next == len(p.script) && p.got == len(p.recvs) {
		select {
		case <-p.drained:
		default:
			close(p.drained)
		}
	}
}

// end closes both QPs, gracefully if possible, and compares memory.
func (w *verbsWorld) end() {
	a, b := w.peers[0], w.peers[1]
	w.wantRefusal()
	w.wantDamageFound()
	if w.eventful() || a.connectErr != nil || b.connectErr != nil {
		a.qp.Close()
		b.qp.Close()
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		first, second := a, b
		if w.rng.IntN(2) == 0 {
			first, second = b, a
		}
		err := first.qp.Disconnect(ctx)
		<-second.qp.Done()
		if !w.link.isBroken() && (err != nil || second.qp.Err() != io.EOF) {
			w.fail("a good end: %v and %v", err, second.qp.Err())
		}
		a.qp.Close()
		b.qp.Close()
	}
	for _, e := range w.link.ends {
		e.Close()
	}
	for i, p := range w.peers {
		p.wantCause()
		p.compare(w.peers[1-i])
	}
}

// wantRefusal checks that work which the peer must refuse has ended the connection, unless another
// cause may have ended it before.
func (w *verbsWorld) wantRefusal() {
	a, b := w.peers[0], w.peers[1]
	if !w.bad && w.forgeries.Load() == 0 || w.leave > 0 || a.revoke > 0 || b.revoke > 0 || w.link.isBroken() || w.damaged.Load() || a.connectErr != nil || b.connectErr != nil {
		return
	}
	for _, p := range w.peers {
		select {
		case <-p.qp.Done():
		case <-time.After(10 * time.Minute):
		}
	}
	_, ours := term.CodeOf(a.qp.Err())
	_, theirs := term.CodeOf(b.qp.Err())
	if !ours && !theirs && !w.link.isBroken() {
		w.fail("work that has to be refused was not: %v and %v", a.qp.Err(), b.qp.Err())
	}
}

// wantDamageFound checks that a changed bit has ended the connection by its CRC, unless another
// cause may have ended it before.
func (w *verbsWorld) wantDamageFound() {
	a, b := w.peers[0], w.peers[1]
	if !w.damaged.Load() || w.bad || w.forgeries.Load() > 0 || w.leave > 0 || a.revoke > 0 || b.revoke > 0 || a.connectErr != nil || b.connectErr != nil {
		return
	}
	for _, p := range w.peers {
		select {
		case <-p.qp.Done():
		case <-time.After(10 * time.Minute):
		}
	}
	ours, _ := term.CodeOf(a.qp.Err())
	theirs, _ := term.CodeOf(b.qp.Err())
	if ours != term.MPACRC && theirs != term.MPACRC && !w.link.isBroken() {
		w.fail("damage was not found: %v and %v", a.qp.Err(), b.qp.Err())
	}
}

// wantCause checks that an undisturbed connection ends without an error of the protocol, and
// flushes no work.
func (p *peer) wantCause() {
	err := p.qp.Err()
	_, fault := term.CodeOf(err)
	if fault && !p.w.bad && !p.w.damaged.Load() && p.w.forgeries.Load() == 0 && p.revoke == 0 {
		p.w.fail("%c ends: %v", 'A'+p.side, err)
	}
	if !p.w.eventful() && (p.flushed || p.got < len(p.recvs)) {
		p.w.fail("%c: work was flushed: %v", 'A'+p.side, err)
	}
}

// compare compares p's memory with the other side's writes: all of them if nothing was flushed,
// otherwise any part.
func (p *peer) compare(from *peer) {
	if p.revoked {
		for _, b := range [][]byte{p.target, p.source} {
			if bytes.Count(b, []byte{venom}) != len(b) {
				p.w.fail("%c: memory was written to after Invalidate", 'A'+p.side)
			}
		}
		return
	}
	whole := !p.w.eventful()
	check := func(b []byte, spare int) {
		want := make([]byte, len(b))
		could := make([]bool, len(b)) // can differ from want, if their Write has not come
		for _, x := range from.script {
			if x.wr.Op == rnic.OpWrite && x.spare == spare && x.at+len(x.data) <= len(b) {
				copy(want[x.at:], x.data)
				for i := range x.data {
					could[x.at+i] = true
				}
				// The data from a damaged segment, except a Write's first, is undefined, to the end
				// of the region.
				for i := x.at + len(x.data); from.w.damaged.Load() && len(x.data) > 1400 && i < len(b); i++ {
					could[i] = true
				}
			}
		}
		for i := range b {
			if b[i] != want[i] && (whole || !could[i]) {
				p.w.fail("%c: byte %d of region %d is %x, want %x", 'A'+p.side, i, spare, b[i], want[i])
				return
			}
		}
	}
	check(p.target, -1)
	for i := range p.spare {
		check(p.spare[i], i)
	}
}
