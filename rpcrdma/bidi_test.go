// Both directions, cancelled calls, limits, and the end of connections under load.

package rpcrdma

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// Calls go in both directions over one connection at once, with separate credits (RFC 8167 §2.4
// [R8167-001], RFC 8167 §2.4.1 [R8167-002], RFC 8167 §4.1 [R8167-003 R8167-004 R8167-005]), and
// with chunks.
func TestBothDirections(t *testing.T) { overProviders(t, testBothDirections) }

func testBothDirections(t *bed) {
	conformance.Proves(t, "R8167-003", "R8167-004", "R8167-014")
	a, b := &echoServer{async: true}, &echoServer{}
	c, s := pair(t, Config{Credits: 4, Handler: a}, Config{Credits: 6, Handler: b})
	if err := doNull(c); err != nil { // a responder MUST NOT send first (RFC 5044 §7.1.2)
		t.Fatalf("doNull: %v", err)
	}
	var wg sync.WaitGroup
	for _, conn := range []*Conn{c, s} {
		for g := range 8 {
			wg.Go(func() {
				for i := range 12 {
					n := sizes[(g*5+i)%len(sizes)]
					if err := errors.Join(doNull(conn), doRead(conn, n, true), doWrite(conn, n), doLong(conn, n)); err != nil {
						t.Errorf("%d bytes: %v", n, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	a.served.Wait()
	c.Close()
	s.Close()
	checkReleased(t, c, s)
}

// A Conn without Handler drops calls, even malformed ones (RFC 8167 §6 [R8167-020]).
func TestNoServiceDrops(t *testing.T) { overProviders(t, testNoServiceDrops) }

func testNoServiceDrops(t *bed) {
	conformance.Proves(t, "R8166-113", "R8166-149", "R8167-020")
	p, c := rawResponder(t, Config{Credits: grant}, r1)
	d := start(t.Context(), c, nullCall(c, 7))
	p.wantCall(7)
	p.send(words(9, 1, 1, 0, 0, 0, 0, 9, 0, procNull))
	p.send(words(9, 2, 1, 0, 0, 0, 0, 9, 0, procNull))
	p.send(words(9, 1, 1, 0, 2, 0, 0, 9, 0, procNull))
	p.send(words(9, 1, 1, 1, 0, 0, 0))
	p.send(nullReply(7, 1))
	if err := <-d.done; err != nil {
		t.Fatalf("Do: %v", err)
	}
	d.k.Release()
	d = start(t.Context(), c, nullCall(c, 8))
	p.wantCall(8) // no message comes before it
	p.send(nullReply(8, 1))
	if err := <-d.done; err != nil {
		t.Fatalf("Do: %v", err)
	}
	d.k.Release()
}

// Pulls and results keep to the budget: requests beyond it wait, and all bytes are given back.
func TestBudgetIsKept(t *testing.T) { overProviders(t, testBudgetIsKept) }

func testBudgetIsKept(t *bed) {
	budget := mem.NewBudget(4 << 20)
	srv := &echoServer{async: true}
	var clients []*Conn
	var ends []*Conn
	for range 3 {
		c, s := pair(t, Config{}, Config{Handler: srv, Budget: budget})
		clients = append(clients, c)
		ends = append(ends, c, s)
	}
	var wg sync.WaitGroup
	for _, c := range clients {
		for range 8 {
			wg.Go(func() {
				for range 4 {
					if err := doWrite(c, 1<<20); err != nil {
						t.Errorf("doWrite: %v", err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	srv.served.Wait()
	for _, c := range ends {
		c.Close()
	}
	if got := budget.Free(); got != 4<<20 {
		t.Errorf("%d bytes did not come back", 4<<20-got)
	}
	checkReleased(t, ends...)
}

func TestBudgetSpent(t *testing.T) { overProviders(t, testBudgetSpent) }

func testBudgetSpent(t *bed) {
	budget := mem.NewBudget(64 << 10)
	ask := make(chan bool, 3)
	srv := &echoServer{hold: func(r *Request, _ uint32) bool {
		ask <- r.Buffer(20<<10) != nil // takes 32 KiB, half of the budget: a connection's share
		ask <- r.Buffer(1) != nil
		ask <- r.Buffer(-1) != nil
		_ = r.Reply(replyTo(r))
		return true
	}}
	c, s := pair(t, Config{}, Config{Handler: srv, Budget: budget})
	if err := doNull(c); err != nil {
		t.Fatalf("doNull: %v", err)
	}
	if got, want := [3]bool{<-ask, <-ask, <-ask}, [3]bool{true}; got != want {
		t.Errorf("the share of the budget: %v, want %v", got, want)
	}
	if err := doWrite(c, 100<<10); !errors.Is(err, ErrChunk) { // can never fit
		t.Errorf("doWrite: %v, want %v", err, ErrChunk)
	}
	c.Close()
	s.Close()
	if got := budget.Free(); got != 64<<10 {
		t.Errorf("%d bytes free", got)
	}
}

// Segments beyond the send queue's size wait for room in it.
func TestSendQueueFull(t *testing.T) { overProviders(t, testSendQueueFull) }

func testSendQueueFull(t *bed) {
	srv := &echoServer{}
	p, c := rawRequester(t, serverConfig(srv), AppendPrivateData(nil, PrivateData{SendSize: 4096, RecvSize: 4096}))
	mem := make([]byte, 160)
	fill(mem, 5)
	mr := p.expose(mem, rnic.RemoteRead)
	msg := words(7, 1, 1, 0)
	for i := range 160 {
		msg = append(msg, words(1, 16, part(mr, i, 1))...)
	}
	msg = append(msg, words(0, 0, 0, 7, 0, procWrite, 160)...)
	for range grant {
		if err := p.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{msg}}); err != nil {
			t.Fatalf("PostSend: %v; the ends: %v, %v", err, p.qp.Err(), c.Err())
		}
	}
	for range grant {
		p.want("160 segments", words(7, 1, grant, 0, 0, 0, 0, 7, 1, 0, sum(mem), 160))
	}
	p.null("after that")
	p.qp.Close()
	<-c.Done()
	checkReleased(t, c)
}

// Calls given up at random moments leave no resources behind, and the other calls still get their
// own bytes.
func TestCancelAtAnyTime(t *testing.T) { overProviders(t, testCancelAtAnyTime) }

func testCancelAtAnyTime(t *bed) {
	srv := &echoServer{async: true}
	cfg := Config{Credits: 8}
	c, s := pair(t, cfg, Config{Credits: 8, Handler: srv})
	var wg sync.WaitGroup
	for g := range 12 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for range 40 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rng.IntN(400))*time.Microsecond)
				k := c.NewCall()
				setMsg(k, begin(k, procNull))
				k.MaxReply = 5000 // a Reply chunk, still offered after the wait
				err := c.Do(ctx, k)
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Do: %v, want %v", err, context.DeadlineExceeded)
				}
				k.Release()
				if err := doLong(c, rng.IntN(9000)); err != nil {
					t.Errorf("doLong: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if err := doNull(c); err != nil { // the connection survived all of it
		t.Fatalf("doNull: %v", err)
	}
	srv.served.Wait()
	c.Close()
	s.Close()
	checkReleased(t, c, s)
}

// Connections that end during work leave no goroutine, budget or call behind.
func TestEndUnderLoad(t *testing.T) { overProviders(t, testEndUnderLoad) }

func testEndUnderLoad(t *bed) {
	before := runtime.NumGoroutine()
	budget := mem.NewBudget(64 << 20)
	for round := range 6 {
		srv := &echoServer{async: true}
		c, s := pair(t, Config{Budget: budget}, Config{Handler: srv, Budget: budget})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := 0; ; i++ {
					n := sizes[(g+i)%len(sizes)]
					err := errors.Join(doRead(c, n, true), doWrite(c, n), doLong(c, n))
					if errors.Is(err, ErrClosed) {
						return
					}
					if err != nil {
						t.Errorf("doRead: %v", err)
						return
					}
				}
			})
		}
		for srv.calls.Load() < 100 {
			yield()
		}
		switch round % 3 {
		case 0:
			c.Close()
		case 1:
			s.Close()
		case 2:
			s.qp.Abort(errStalled)
		}
		wg.Wait()
		<-c.Done()
		<-s.Done()
		srv.served.Wait()
		checkReleased(t, c)
		if n := s.responder.account.Held(); n != 0 {
			t.Errorf("round %d: %d bytes held", round, n)
		}
	}
	if got := budget.Free(); got != 64<<20 {
		t.Errorf("%d bytes of the budget are lost", 64<<20-got)
	}
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before && time.Now().Before(end); {
		yield()
	}
	if n := runtime.NumGoroutine(); n > before {
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines more\n%s", n-before, buf[:runtime.Stack(buf, true)])
	}
}

// Both sides use the smaller size, and messages in every form still fit (RFC 8166 §3.3.2
// [R8166-033], RFC 8166 §3.3.3 [R8166-036 R8166-037]).
func TestInlineSizes(t *testing.T) { overProviders(t, testInlineSizes) }

func testInlineSizes(t *bed) {
	conformance.Proves(t, "R8166-033", "R8166-036", "R8166-037", "R8797-009", "R8797-010")
	for _, sz := range [][2]int{{1024, 4096}, {4096, 1024}, {65536, 65536}, {1024, 1024}, {1, 1 << 20}} {
		c, _ := pair(t, Config{InlineSize: sz[0]}, Config{InlineSize: sz[1], Handler: &echoServer{}})
		want := max(1024, min(sz[0], sz[1]))
		if thr, want := c.thresholds(), (Thresholds{want, want, true}); thr != want {
			t.Errorf("%v: %+v, want %+v", sz, thr, want)
		}
		for _, n := range sizes {
			if err := errors.Join(doRead(c, n, true), doWrite(c, n), doLong(c, n), doRead(c, n, false)); err != nil {
				t.Errorf("%v, %d bytes: %v", sz, n, err)
			}
		}
	}
}
