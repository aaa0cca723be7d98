// Receives and credits at their limits: bursts of the whole grant, zero grants, new connections.

package rpcrdma

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// burst exceeds the receives for messages without credit.
const burst = 3 * recvSlack

// A requester that uses all of the grant at once finds a receive for each call, also right after
// the replies to the previous burst.
func TestGrantIsBacked(t *testing.T) { overProviders(t, testGrantIsBacked) }

func testGrantIsBacked(t *bed) {
	conformance.Proves(t, "R8166-027", "R8166-041", "R8167-009")
	held := make(chan *Request, burst)
	srv := &echoServer{hold: func(r *Request, _ uint32) bool { held <- r; return true }}
	p, c := rawRequester(t, Config{Credits: burst, Handler: srv}, r1)
	for range 5 {
		for i := range burst {
			p.send(words(i, 1, burst, 0, 0, 0, 0, i, 0, procNull))
		}
		var rs []*Request
		for range burst { // all are there before the first is answered
			select {
			case r := <-held:
				rs = append(rs, r)
			case <-c.Done():
				t.Fatalf("the connection ended: %v", c.Err())
			}
		}
		for i, r := range rs {
			if err := r.Reply(replyTo(r)); err != nil {
				t.Fatalf("Reply: %v", err)
			}
			p.want("burst", words(i, 1, burst, 0, 0, 0, 0, i, 1, 0))
		}
	}
}

// A requester has a receive for the reply to each sent call, and also for each incoming call, if
// calls go both ways.
func TestRepliesAtOnce(t *testing.T) { overProviders(t, testRepliesAtOnce) }

func testRepliesAtOnce(t *bed) {
	conformance.Proves(t, "R8166-028", "R8167-008", "R8167-009")
	for _, both := range []bool{false, true} {
		held := make(chan *Request, burst)
		cfg := Config{Credits: burst}
		if both {
			cfg.Handler = &echoServer{hold: func(r *Request, _ uint32) bool { held <- r; return true }}
		}
		p, c := rawResponder(t, cfg, r1)
		if err := answered(t, p, c, 1000, burst); err != nil {
			t.Fatalf("answered: %v", err)
		}
		var dos []*pendingDo
		for i := range uint32(burst) {
			dos = append(dos, start(t.Context(), c, nullCall(c, i)))
		}
		for range burst {
			if _, err := p.next(); err != nil {
				t.Fatalf("next: %v", err)
			}
		}
		var wrs []rnic.SendWR
		for i := range burst {
			if both {
				wrs = append(wrs, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{words(i, 1, 1, 0, 0, 0, 0, i, 0, procNull)}})
			}
		}
		for i := range burst {
			wrs = append(wrs, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{nullReply(uint32(i), burst)}})
		}
		if err := p.qp.PostSend(wrs...); err != nil {
			t.Fatalf("PostSend: %v", err)
		}
		for _, d := range dos {
			if err := <-d.done; err != nil {
				t.Fatalf("Do: %v", err)
			}
			d.k.Release()
		}
		for i := 0; both && i < burst; i++ {
			(<-held).Drop()
		}
	}
}

// answered makes one NULL call and answers it.
func answered(t testing.TB, p *rawPeer, c *Conn, xid uint32, credits int) error {
	t.Helper()
	d := start(t.Context(), c, nullCall(c, xid))
	p.wantCall(xid)
	p.send(nullReply(xid, credits))
	err := <-d.done
	d.k.Release()
	return err
}

// Invalid replies grant nothing: the second call waits for a valid one.
func TestGarbageGrantsNothing(t *testing.T) { overProviders(t, testGarbageGrantsNothing) }

func testGarbageGrantsNothing(t *bed) {
	conformance.Proves(t, "R8166-040", "R8166-149")
	p, c := rawResponder(t, Config{Credits: 8}, r1)
	d, _, s := exposed(t, p, c, 2) // with a Read chunk
	second := start(t.Context(), c, nullCall(c, 9))
	must.Become(t, "the calls in line", func() bool { return c.queued() == 1 })
	for _, msg := range [][]byte{words(7, 1, 8, 0, 0, 0), words(7, 2, 8, 0, 0, 0, 0, 7, 1, 0), words(7, 1, 8, 0, 2, 0, 0, 7, 1, 0),
		words(7, 1, 8, 0, 0, 0, 0, 8, 1, 0), words(8, 1, 8, 0, 0, 0, 0, 8, 1, 0), words(8, 1, 8, 4, 2), words(7, 1, 8, 4, 9)} {
		p.send(msg)
	}
	p.touch(s, true) // answered once all have been parsed
	for p.sent < 8 {
		var wc [1]rnic.WC
		switch {
		case p.cq.Poll(wc[:]) == 0:
			yield()
		case wc[0].Op == rnic.OpRecv || wc[0].Status != rnic.WCSuccess:
			t.Fatalf("%+v", wc[0])
		default:
			p.sent++
		}
	}
	if c.queued() != 1 || c.outstanding() != 1 {
		t.Errorf("%d calls wait, %d are out", c.queued(), c.outstanding())
	}
	p.send(words(7, 1, 8, 0, 0, 0, 0, 7, 1, 0))
	p.wantCall(9)
	p.send(nullReply(9, 8))
	for _, do := range []*pendingDo{d, second} {
		if err := <-do.done; err != nil {
			t.Errorf("Do: %v", err)
		}
		do.k.Release()
	}
}

// A request for 0 credits counts as a request for 1 credit.
func TestNoCreditsAskedFor(t *testing.T) { overProviders(t, testNoCreditsAskedFor) }

func testNoCreditsAskedFor(t *bed) {
	conformance.Proves(t, "R8166-020", "R8166-025")
	p, _ := rawRequester(t, serverConfig(&echoServer{}), r1)
	for i := range 2 * grant {
		p.send(words(i, 1, 0, 0, 0, 0, 0, i, 0, procNull))
		p.want("no credits", words(i, 1, grant, 0, 0, 0, 0, i, 1, 0))
	}
}

// One credit is enough for any call, regardless of its RDMA operations.
func TestOneCredit(t *testing.T) { overProviders(t, testOneCredit) }

func testOneCredit(t *bed) {
	conformance.Proves(t, "R8166-018")
	c, _ := pair(t, Config{Credits: 1}, Config{Credits: 1, Handler: &echoServer{}})
	for range 10 {
		if err := errors.Join(doNull(c), doRead(c, 9000, true), doWrite(c, 9000), doPair(c, 9000, 9), doLong(c, 9000)); err != nil {
			t.Fatalf("doNull: %v", err)
		}
	}
}

// Every connection starts again: one call until its reply, and messages of 1024 bytes if the peer
// declares no sizes, even if the previous connection had others.
func TestFreshConnections(t *testing.T) { overProviders(t, testFreshConnections) }

func testFreshConnections(t *bed) {
	conformance.Proves(t, "R8166-038", "R8166-039", "R8166-042", "R8797-010", "R8797-019")
	for _, private := range [][]byte{r1, nil, r1} {
		p, c := rawResponder(t, Config{Credits: 8}, private)
		first, second := start(t.Context(), c, nullCall(c, 1)), (*pendingDo)(nil)
		p.wantCall(1)
		second = start(t.Context(), c, nullCall(c, 2))
		must.Become(t, "the calls in line", func() bool { return c.queued() == 1 })
		p.send(nullReply(1, 8))
		p.wantCall(2)
		p.send(nullReply(2, 8))
		for _, d := range []*pendingDo{first, second} {
			if err := <-d.done; err != nil {
				t.Fatalf("Do: %v", err)
			}
			d.k.Release()
		}
		k := c.NewCall()
		e := xdr.NewEncoder(k.Scratch())
		e.Raw(words(7, 0, procLong))
		e.Opaque(make([]byte, 1000)) // 28 + 16 + 1000 bytes
		setMsg(k, e)
		k.MaxReply = 20
		d := start(t.Context(), c, k)
		var h Header
		msg := p.wantCall(7)
		if err := h.Parse(msg); err != nil || (h.Proc == ProcNoMsg) != (private == nil) {
			t.Errorf("%v of %d bytes to a peer that said %x", h.Proc, len(msg), private)
		}
		p.send(words(7, 1, 1, 4, 2))
		<-d.done
		k.Release()
	}
}

// A message of 1024 bytes is accepted with any sizes.
func TestLeastReceive(t *testing.T) { overProviders(t, testLeastReceive) }

func testLeastReceive(t *bed) {
	conformance.Proves(t, "R8166-036")
	for _, private := range [][]byte{nil, AppendPrivateData(nil, PrivateData{SendSize: 1024, RecvSize: 1024})} {
		p, _ := rawRequester(t, Config{Credits: grant, InlineSize: 1, Handler: &echoServer{}}, private)
		msg := words(7, 1, 1, 0, 0, 0, 0, 7, 0, procWrite, 980, make([]byte, 980))
		p.send(msg)
		if len(msg) != 1024 {
			t.Fatalf("a message of %d bytes, want 1024", len(msg))
		}
		p.want("1024 bytes", words(7, 1, grant, 0, 0, 0, 0, 7, 1, 0, sum(make([]byte, 980)), 980))
	}
}

// An impossible call fails at once, and nothing of it is sent.
func TestCallThatCannotBeMade(t *testing.T) { overProviders(t, testCallThatCannotBeMade) }

func testCallThatCannotBeMade(t *bed) {
	conformance.Proves(t, "R8166-167")
	p, c := rawResponder(t, Config{Credits: 4}, r1)
	k := c.NewCall()
	k.Msg = chunks.Message{Stream: words(7, 0, procWrite), Items: make([]xdr.Item, maxItems+1)}
	if err := c.Do(t.Context(), k); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Do: %v, want %v", err, ErrTooLarge)
	}
	k.Release()
	if err := answered(t, p, c, 8, 1); err != nil { // its wantCall finds no earlier message
		t.Errorf("answered: %v", err)
	}
}

// If an answer cannot be posted, the connection is closed.
func TestUnpostableReplyCloses(t *testing.T) { overProviders(t, testUnpostableReplyCloses) }

func testUnpostableReplyCloses(t *bed) {
	conformance.Proves(t, "R8166-169")
	srv := &echoServer{hold: func(r *Request, _ uint32) bool {
		r.endServed(requestReplying)
		r.endService()
		r.wrs = append(r.wrs[:0], rnic.SendWR{ID: wrReply | r.index, Op: rnic.OpRecv})
		if err := r.post(); err == nil {
			t.Error("posted")
		}
		r.rs.release(r)
		return true
	}}
	p, c := rawRequester(t, serverConfig(srv), r1)
	p.send(words(7, 1, 1, 0, 0, 0, 0, 7, 0, procNull))
	<-c.Done()
	if !errors.Is(c.Err(), ErrClosed) {
		t.Errorf("Err: %v, want %v", c.Err(), ErrClosed)
	}
}
