// The responder's resources during pull and service: budget, sinks, its place on the waitlist.

package rpcrdma

import (
	"context"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// A pulled call counts in the Budget until it has been answered, and the peer cannot change pulled
// bytes.
func TestPulledCallHoldsBudgetAndNoSink(t *testing.T) {
	overProviders(t, testPulledCallHoldsBudgetAndNoSink)
}

func testPulledCallHoldsBudgetAndNoSink(t *bed) {
	held := make(chan *Request, 1)
	srv := &echoServer{hold: func(r *Request, _ uint32) bool { held <- r; return true }}
	p, c := rawRequester(t, Config{Credits: grant, Handler: srv, Budget: mem.NewBudget(1 << 20)}, r1)
	mr := p.expose(make([]byte, 5000), rnic.RemoteRead)
	p.send(words(7, 1, 1, 0, 1, 16, part(mr, 0, 5000), 0, 0, 0, 7, 0, procWrite, 5000))
	r := <-held
	if n := c.responder.account.Held(); n != mem.Size(5000) || r.held != n {
		t.Errorf("%d bytes are held, %d by the call", n, r.held)
	}
	if r.pullMR.Valid() {
		t.Error("the sink is still open")
	}
	if err := r.Reply(replyTo(r)); err != nil {
		t.Fatalf("Reply: %v", err)
	}
	p.want("the reply", words(7, 1, grant, 0, 0, 0, 0, 7, 1, 0))
}

// Bytes served to a connection that has ended meanwhile go back to the Budget.
func TestBudgetServedAfterTheEnd(t *testing.T) {
	budget := mem.NewBudget(1 << 20)
	c, err := newConn(iwarp.Open(rnic.DeviceConfig{}), Config{Credits: 1, Budget: budget})
	if err != nil {
		t.Fatalf("newConn: %v", err)
	}
	c.responder.end(nil)
	if !c.responder.account.Take(4096) {
		t.Fatal("not free")
	}
	c.responder.budgetServed(4096)
	if budget.Free() != budget.Total() {
		t.Errorf("%d bytes are lost", budget.Total()-budget.Free())
	}
	c.qp.Close()
}

// New work joins a waitlist with work, even if the queue has room for it: otherwise a large batch
// would wait forever while small ones pass it.
func TestSendLineIsNotPassed(t *testing.T) {
	c, p := connect(t, Config{Credits: 8})
	first := start(t.Context(), c, nullCall(c, 1))
	p.wantCall(1)
	p.reply(1, 8)
	<-first.done
	first.k.Release()
	c.waitlist.mu.Lock() // keeps others from posting its work
	c.waitlist.n.Add(1)  // as if a large batch were in it
	ctx, cancel := context.WithCancel(t.Context())
	second := start(ctx, c, nullCall(c, 2))
	inState(t, second.k, callPosted)
	for range 100 {
		yield()
	}
	if n := c.progress.Load(); n != 1 {
		t.Errorf("%d calls have left", n)
	}
	c.waitlist.n.Add(-1)
	c.waitlist.mu.Unlock()
	p.wantCall(2)
	p.reply(2, 8)
	if err := <-second.done; err != nil {
		t.Errorf("Do: %v", err)
	}
	cancel()
	second.k.Release()
	checkReleased(t, c)
}
