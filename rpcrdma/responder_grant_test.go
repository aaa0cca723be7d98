// Credits raised and lowered during calls.

package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// flood sends n calls at once and collects them as they arrive at the handler.
func flood(t testing.TB, p *rawPeer, c *Conn, held chan *Request, from, n int) (rs []*Request) {
	t.Helper()
	for i := range n {
		p.send(words(from+i, 1, 99, 0, 0, 0, 0, from+i, 0, procNull))
	}
	for range n {
		select {
		case r := <-held:
			rs = append(rs, r)
		case <-c.Done():
			t.Fatalf("the connection ended: %v", c.Err())
		}
	}
	return rs
}

// answerAll replies to all and checks the grant in each reply.
func answerAll(t testing.TB, p *rawPeer, rs []*Request, credits int) {
	t.Helper()
	for _, r := range rs {
		xid := r.hdr.XID
		if err := r.Reply(replyTo(r)); err != nil {
			t.Fatalf("Reply: %v", err)
		}
		p.want("grant", words(xid, 1, credits, 0, 0, 0, 0, xid, 1, 0))
	}
}

// backing returns the receives for calls in use, and the number of allowed calls.
func (c *Conn) backing() (receives, allowed int) {
	rs := &c.responder
	rs.mu.Lock()
	defer rs.mu.Unlock()
	g := &rs.grant
	c.receives.mu.Lock()
	defer c.receives.mu.Unlock()
	if n := c.receives.all - g.spare - int(g.surplus.Load()); n != g.receives {
		return -n, g.allowed
	}
	return g.receives, g.allowed
}

func wantBacking(t testing.TB, c *Conn, n int) {
	t.Helper()
	must.Become(t, fmt.Sprintf("what backs %d calls", n), func() bool { // the last reply's completion may be under way
		_, allowed := c.backing()
		return allowed == n
	})
	if receives, allowed := c.backing(); receives != n+recvSlack || allowed != n {
		t.Fatalf("%d receives for %d calls, want %d", receives, allowed, n)
	}
}

// A larger grant has its receives before a reply announces it. A smaller one leaves calls in flight
// their receives, and the peer may use its old grant until it learns the new one.
func TestSetCredits(t *testing.T) { overProviders(t, testSetCredits) }

func testSetCredits(t *bed) {
	conformance.Proves(t, "R8166-022", "R8166-027")
	held := make(chan *Request, 64)
	srv := &echoServer{hold: func(r *Request, _ uint32) bool { held <- r; return true }}
	p, c := rawRequester(t, Config{Credits: 4, MaxCredits: 40, Handler: srv}, r1)
	set := func(n int) {
		t.Helper()
		if err := c.SetCredits(n); err != nil {
			t.Fatalf("SetCredits: %v", err)
		}
	}
	answerAll(t, p, flood(t, p, c, held, 0, 4), 4)

	set(40)
	answerAll(t, p, flood(t, p, c, held, 10, 1), 40)
	rs := flood(t, p, c, held, 100, 40) // a receive for each is there
	wantBacking(t, c, 40)

	set(3)
	answerAll(t, p, rs[:10], 3)
	wantBacking(t, c, 30) // enough for the calls in flight, and no more
	answerAll(t, p, rs[10:], 3)
	wantBacking(t, c, 3)
	answerAll(t, p, flood(t, p, c, held, 200, 3), 3)

	set(20)
	set(2) // the peer knows neither grant, and keeps to three
	answerAll(t, p, flood(t, p, c, held, 300, 3), 2)
	set(30)
	answerAll(t, p, flood(t, p, c, held, 400, 2), 30)
	answerAll(t, p, flood(t, p, c, held, 500, 30), 30)

	set(2)
	answerAll(t, p, flood(t, p, c, held, 600, 30), 2)
	wantBacking(t, c, 2)
	if n := c.receives.all; n != 40+recvSlack {
		t.Errorf("%d receives were made", n)
	}
	for i := range 3 { // one more than it knows of
		p.send(words(700+i, 1, 99, 0, 0, 0, 0, 700+i, 0, procNull))
	}
	<-c.Done()
	if !errors.Is(c.Err(), errOvercommit) || !errors.Is(c.SetCredits(4), ErrClosed) {
		t.Errorf("Err: %v, want %v; SetCredits: %v, want %v", c.Err(), errOvercommit, c.SetCredits(4), ErrClosed)
	}
	for range 2 {
		(<-held).Drop()
	}
	checkReleased(t, c)
}

// If the reply with the larger grant leaves after a reply with the smaller one, it announces the
// smaller one as well.
func TestSetCreditsOvertaken(t *testing.T) { overProviders(t, testSetCreditsOvertaken) }

func testSetCreditsOvertaken(t *bed) {
	held := make(chan *Request, 64)
	srv := &echoServer{hold: func(r *Request, _ uint32) bool { held <- r; return true }}
	p, c := rawRequester(t, Config{Credits: 8, Handler: srv}, r1)
	rs := flood(t, p, c, held, 0, 8)
	c.responder.announce(rs[0]) // as for a reply under construction
	if err := c.SetCredits(2); err != nil {
		t.Fatalf("SetCredits: %v", err)
	}
	answerAll(t, p, rs[1:], 2)
	if _, allowed := c.backing(); allowed != 8 {
		t.Errorf("%d calls are allowed, and eight may be announced yet", allowed)
	}
	rs[0].hdr.Credits = 8
	xid := rs[0].hdr.XID
	if err := rs[0].Reply(replyTo(rs[0])); err != nil {
		t.Fatalf("Reply: %v", err)
	}
	p.want("the last", words(xid, 1, 2, 0, 0, 0, 0, xid, 1, 0))
	answerAll(t, p, flood(t, p, c, held, 20, 8), 2)
	wantBacking(t, c, 2)
}

func TestSetCreditsRefused(t *testing.T) { overProviders(t, testSetCreditsRefused) }

func testSetCreditsRefused(t *bed) {
	c, s := pair(t, Config{}, Config{Credits: 4, Handler: &echoServer{}})
	for n, want := range map[int]error{-1: errNoCredits, 0: errNoCredits, 5: errMaxCredits, 4: nil, 1: nil} {
		if err := s.SetCredits(n); err != want {
			t.Errorf("%d: %v", n, err)
		}
	}
	if err := c.SetCredits(1); err != errNoService {
		t.Errorf("SetCredits: %v, want %v", err, errNoService)
	}
	if err := doNull(c); err != nil {
		t.Errorf("doNull: %v", err)
	}
}

// On the wire: calls in flight keep to the announced grant, up and down, and no message is lost.
func TestSetCreditsOnTheWire(t *testing.T) {
	const most = 48
	dev := iwarp.Open(rnic.DeviceConfig{})
	l, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	accepted, srv := make(chan *Conn, 1), &echoServer{async: true}
	go func() {
		defer close(accepted)
		if req, err := l.Accept(context.Background()); err == nil {
			if s, err := Accept(dev, req, Config{Credits: 6, MaxCredits: most, Handler: srv}); err == nil {
				accepted <- s
			}
		}
	}()
	var tp tap
	c, err := Dial(t.Context(), dev, tp.between(t, l.Addr().String()), Config{Credits: most})
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	s := <-accepted
	if s == nil {
		t.Fatal("not accepted")
	}
	grants := []int{6, 40, 2, 17, 1, most, 3}
	for _, n := range grants {
		if err := s.SetCredits(n); err != nil {
			t.Fatalf("SetCredits: %v", err)
		}
		var wg sync.WaitGroup
		for i := range most {
			wg.Go(func() {
				for range 3 {
					if err := errors.Join(doNull(c), doRead(c, 5000+i, i%2 == 0)); err != nil {
						t.Errorf("doNull: %v", err)
					}
				}
			})
		}
		wg.Wait()
	}
	wantBacking(t, s, 3)
	srv.served.Wait()
	c.Close()
	s.Close()
	checkReleased(t, c, s)
	_, segs := tp.segments(t)
	if told := grantsTold(t, segs); !slices.Equal(told, grants) {
		t.Errorf("told %v", told)
	}
}

// grantsTold returns the grants announced by the replies, in order, and checks the calls against
// them.
func grantsTold(t *testing.T, segs []seen) (told []int) {
	t.Helper()
	inflight, before, now := 0, 1, 1
	for _, m := range segs {
		if !m.op.IsSend() {
			continue
		}
		if m.fromClient {
			// A reply may have passed here before the client learned of it.
			if inflight++; inflight > max(before, now) {
				t.Fatalf("%d calls in flight, %d and then %d were granted", inflight, before, now)
			}
			continue
		}
		inflight--
		var h Header
		if err := h.Parse(m.payload); err != nil {
			t.Fatalf("Parse: %v", err)
		}
		if n := int(h.Credits); n != now {
			before, now = now, n
			told = append(told, n)
		}
	}
	return told
}

// Every call is served while many goroutines change the grant all the time, under load.
func TestSetCreditsUnderLoad(t *testing.T) { overProviders(t, testSetCreditsUnderLoad) }

func testSetCreditsUnderLoad(t *bed) {
	srv := &echoServer{async: true}
	c, s := pair(t, Config{Credits: 32}, Config{Credits: 8, MaxCredits: 32, Handler: srv})
	var ended atomic.Bool
	var setters, callers sync.WaitGroup
	for g := range 3 {
		setters.Go(func() {
			for i := g; !ended.Load(); i++ {
				if err := s.SetCredits(1 + i*7%32); err != nil {
					t.Errorf("SetCredits: %v", err)
					return
				}
				yield()
			}
		})
	}
	for g := range 40 {
		callers.Go(func() {
			for i := range 30 {
				n := sizes[(g+i)%12]
				if err := []func() error{func() error { return doNull(c) }, func() error { return doRead(c, n, true) },
					func() error { return doWrite(c, n) }, func() error { return doLong(c, n) }}[(g+i)%4](); err != nil {
					t.Errorf("%d bytes: %v", n, err)
					return
				}
			}
		})
	}
	callers.Wait()
	ended.Store(true)
	setters.Wait()
	srv.served.Wait()
	c.Close()
	s.Close()
	checkReleased(t, c, s)
}
