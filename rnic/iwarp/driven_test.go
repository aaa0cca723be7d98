// A QP with callers that receive, and a peer that answers on command.

package iwarp

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
)

// A driven counts the calls and replies of its QP.
type driven struct {
	*script
	ours, theirs net.Conn
	answers      int // replies that the peer has sent

	asked, got atomic.Int64
	by         [owners]atomic.Int64 // replies, by the owner of the receive right when they were handled
	onHandle   func()               // not nil: runs first in the handler
}

// newDriven connects a driven QP over ours; the test uses the other end, theirs.
func newDriven(t *testing.T, cfg rnic.DeviceConfig, ours, theirs net.Conn) *driven {
	t.Helper()
	d := &driven{ours: ours, theirs: theirs}
	s := &side{dev: Open(cfg)}
	s.pd, s.cq = s.dev.AllocPD(), s.dev.NewCQ(64)
	d.script = &script{side: s, t: t, c: theirs}
	var err error
	s.qp, err = s.pd.CreateQP(rnic.QPConfig{SendCQ: s.cq, RecvCQ: s.cq, SQDepth: 16, RQDepth: 16, Waiting: d.waiting})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	t.Cleanup(func() { s.qp.Close(); theirs.Close() })
	for range 8 {
		recv(t, s.qp, 1, nil)
	}
	s.cq.SetHandler(d.handle)
	pl := &pipeListener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
	l := s.dev.ListenOn(pl)
	defer l.Close()
	pl.conns <- ours
	d.say(mpa.AppendFrame(nil, &mpa.Frame{CRC: true, Rev: mpa.Rev2, HasEnhanced: true, Enhanced: mpa.Enhanced{IRD: 16, ORD: 16}}))
	r, err := l.Accept(context.Background())
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	if err := r.Accept(s.qp, rnic.ConnParams{}); err != nil {
		t.Fatalf("Accept: %v", err)
	}
	d.hear(24)
	d.open()
	return d
}

// inBubble runs f with a driven QP over memory, in simulated time.
func inBubble(t *testing.T, f func(t *testing.T, d *driven)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := rnictest.ReadyPipe()
		d := newDriven(t, rnic.DeviceConfig{}, ours, theirs)
		synctest.Wait() // the gate is open
		f(t, d)
	})
}

func (d *driven) waiting() bool { return d.got.Load() < d.asked.Load() }

func (d *driven) handle() {
	if d.onHandle != nil {
		d.onHandle()
	}
	var wc [1]rnic.WC
	for d.cq.Poll(wc[:]) > 0 {
		if wc[0].Op == rnic.OpRecv && wc[0].Status == rnic.WCSuccess {
			d.by[streamOf(d.qp).right.owner()].Add(1)
			d.got.Add(1)
			d.qp.PostRecv(rnic.RecvWR{ID: 1})
		}
	}
}

// ask posts a call, and returns a function that reports whether all calls up to it are answered.
func (d *driven) ask() (done func() bool) {
	n := d.asked.Add(1)
	d.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, Unsignaled: true})
	return func() bool { return d.got.Load() >= n }
}

// drive makes a call and receives on a new goroutine; the channel gets the time in PollUntil.
func (d *driven) drive() <-chan time.Duration {
	done, took := d.ask(), make(chan time.Duration, 1)
	go func() {
		start := time.Now()
		d.qp.PollUntil(done)
		took <- time.Since(start)
	}()
	return took
}

// answer makes the peer answer one call.
func (d *driven) answer() {
	d.t.Helper()
	d.answers++
	d.fpdu(untagged(0x41, 0x43, 0, 0, uint32(d.answers), 0, nil))
}

func (d *driven) owner() owner { return streamOf(d.qp).right.owner() }

// wantOwner checks the owner of the receive right once all goroutines are blocked.
func (d *driven) wantOwner(want owner) {
	d.t.Helper()
	synctest.Wait()
	if got := d.owner(); got != want {
		d.t.Fatalf("owner %d, want %d", got, want)
	}
}

// rest makes a call whose reply the receive loop receives. After that the loop is parked.
func (d *driven) rest() {
	d.t.Helper()
	<-d.drive()
	d.wantOwner(ownerWanted)
	d.answer()
	d.wantOwner(ownerNone)
}

// begin makes a caller receive, and wait for a reply.
func (d *driven) begin() <-chan time.Duration {
	d.t.Helper()
	d.rest()
	took := d.drive()
	d.wantOwner(ownerCaller)
	return took
}
