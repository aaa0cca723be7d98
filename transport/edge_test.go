// States hard to reach otherwise: connections closed early or draining, exhausted budgets, peers
// without addresses.

package transport

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// TestCallsWithoutAddress: peers without addresses cannot be distinguished, so none gets
// another's reply.
func TestCallsWithoutAddress(t *testing.T) {
	s, p := newTestServer(t)
	for range 2 {
		newTape("").do(s, callOf(7, tCount, 1))
	}
	if n := p.runs.Load(); n != 2 {
		t.Errorf("ran %d times, want 2", n)
	}
}

// TestRepliesWithItemsAreNotKept: the cache does not store replies with items, and the call is
// executed again.
func TestRepliesWithItemsAreNotKept(t *testing.T) {
	var runs atomic.Int32
	s := NewServer(ServerConfig{}, &Program{Number: testProg, Version: testVers, Procs: []Procedure{{Run: func(c *Call) error {
		runs.Add(1)
		c.Res.Item([]byte("item"))
		return nil
	}}}})
	defer s.Shutdown(context.Background())
	for range 2 {
		if got := newTape("10.0.0.1").do(s, chunks.Message{Stream: callOf(7, 0, 1).Stream}); len(got.reply) != 32 {
			t.Errorf("%s % x", got.how, got.reply)
		}
	}
	if n := runs.Load(); n != 2 {
		t.Errorf("ran %d times, want 2", n)
	}
}

// TestGroupsOfCredential: the primary group is not repeated, and excess groups are omitted.
func TestGroupsOfCredential(t *testing.T) {
	many := []int{7}
	for g := range 2 * oncrpc.MaxGIDs {
		many = append(many, 100+g)
	}
	got := credGroups(7, many)
	if len(got) != oncrpc.MaxGIDs || got[0] != 100 || slices.Contains(got, 7) {
		t.Errorf("%d groups: %v", len(got), got)
	}
	cred := Cred{Flavor: oncrpc.FlavorSys, GIDs: got}
	var a oncrpc.AuthSys
	if err := a.Parse(cred.body()); err != nil || !slices.Equal(a.Groups(), got) {
		t.Errorf("on the wire: %v, %v", a.Groups(), err)
	}
}

// TestNoCredentialFromTheEmptyCache: an empty body does not match an empty cache entry.
func TestNoCredentialFromTheEmptyCache(t *testing.T) {
	if cred, ok := new(credCache).sys(nil); ok {
		t.Errorf("%+v", cred)
	}
}

// A connWatch reports ends of connections.
type connWatch struct{ ended chan bool }

func (w *connWatch) Call(CallStats) {}
func (w *connWatch) Connection(rdma bool, delta int) {
	if delta < 0 {
		w.ended <- rdma
	}
}

// TestClosedDuringAccept: an RDMA connection closed to make room before its accept still ends.
func TestClosedDuringAccept(t *testing.T) {
	var s *Server
	w := &connWatch{ended: make(chan bool, 10)}
	s = NewServer(ServerConfig{Observer: w, Owner: func(local, remote netip.AddrPort) Owner {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			c.abort()
		}
		return Owner{Kind: OwnerRemote}
	}}, newTestProgram().program())
	addr, done, err := listenRDMA(s, "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listenRDMA: %v", err)
	}
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	if c, err := networks[1].dial(ctx, addr, ClientConfig{MaxRetries: -1}); err == nil {
		defer c.Close()
	}
	select {
	case <-w.ended:
	case <-ctx.Done():
		t.Error("the connection did not end")
	}
	shutdown(t, s, done)
}

// TestDrainingTakesNoCall: calls that arrive while the server waits for running calls are not
// executed.
func TestDrainingTakesNoCall(t *testing.T) {
	w := &connWatch{ended: make(chan bool, 10)}
	p := newTestProgram()
	s := NewServer(ServerConfig{Observer: w}, p.program())
	addr, done, err := listenRDMA(s, "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listenRDMA: %v", err)
	}
	c, err := networks[1].dial(bg, addr, ClientConfig{MaxRetries: -1})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	var calls sync.WaitGroup
	defer calls.Wait() // other tests replace the pool that calls return to (simulateCalls)
	defer c.Close()
	call := func(proc uint32) { calls.Go(func() { c.Call(bg, testProc(proc), words{1}, words{0}, nil, 64) }) }
	call(tHold)
	<-p.entered
	var r *rdmaConn
	s.mu.Lock()
	for conn := range s.conns {
		r = conn.(*rdmaConn)
	}
	s.mu.Unlock()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		shutdown(t, s, done)
	}()
	await(t, r.draining.Load)
	before := r.used.calls.Load()
	call(tCount)
	await(t, func() bool { return r.used.calls.Load() > before })
	p.release()
	<-stopped
	if n := p.runs.Load(); n != 1 {
		t.Errorf("%d calls ran, want the first alone", n)
	}
}

// await polls until a condition holds.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come to hold")
		}
	}
}

// unserved returns a server's TCP connection without a running receive loop.
func unserved(t *testing.T, cfg ServerConfig) *tcpConn {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return newTCPConn(NewServer(cfg), theirs)
}

// TestDrainingReadsNoMore: a draining connection reads nothing more, even if an incomplete record
// has set a later deadline than drain's.
func TestDrainingReadsNoMore(t *testing.T) {
	for _, inside := range []bool{false, true} {
		c := unserved(t, ServerConfig{})
		c.draining.Store(true)
		if err := c.beforeRead(inside); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v: %v", inside, err)
		}
	}
}

// TestChargeTimeout: a record without memory waits as long as an incomplete record may take, and
// no longer than the connection lasts.
func TestChargeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct {
			draining bool
			freed    time.Duration // 0: never
			waits    time.Duration
			want     error
		}{
			{false, 0, time.Minute, errNoMemory},
			{true, 0, 0, errNoMemory},
			{false, 30 * time.Second, 30 * time.Second, nil},
		} {
			c := unserved(t, ServerConfig{HalfTimeout: time.Minute})
			other, all := c.srv.cfg.Budget.Open(nil), c.srv.cfg.Budget.Total()
			if !other.Take(all) {
				t.Fatal("the budget is not free")
			}
			if row.freed > 0 {
				time.AfterFunc(row.freed, func() { other.Give(all) })
			}
			c.draining.Store(row.draining)
			start := time.Now()
			err := c.charge(1 << 20)
			if waited := time.Since(start); err != row.want || waited < row.waits || waited > row.waits+time.Second {
				t.Errorf("%+v: %v after %v", row, err, waited)
			}
			if charged := c.charged > 0; charged != (row.want == nil) {
				t.Errorf("%+v: %d bytes charged", row, c.charged)
			}
		}
	})
}

// TestResultsCloseTheGate: a connection with its full share of result buffers is not read.
func TestResultsCloseTheGate(t *testing.T) {
	c := unserved(t, ServerConfig{Budget: mem.NewBudget(4 << 20), MaxRecord: 1 << 20})
	if !c.calls.tryEnter() {
		t.Fatal("no call may come")
	}
	call := getCall(c)
	if c.buffer(call, 1<<20+1) == nil {
		t.Fatal("no buffer")
	}
	if c.calls.tryEnter() {
		t.Error("a call was taken beside a share of results that is used up")
	}
	call.args.Reset(nil, nil)
	call.socket.begin(mem.Get(0))
	c.release(call)
	if !c.calls.tryEnter() {
		t.Error("no call may come after the results have left")
	}
	if n := c.srv.budgetUsed(); n != 0 {
		t.Errorf("%d bytes are still taken", n)
	}
}

// TestMinimumReadRate: leastTaken bytes in an interval are enough, one byte less is not.
func TestMinimumReadRate(t *testing.T) {
	c := unserved(t, ServerConfig{})
	if enough, less := c.keepWriting(leastTaken), c.keepWriting(leastTaken-1); !enough || less {
		t.Errorf("%d bytes are enough: %v, one less: %v; want true and false", leastTaken, enough, less)
	}
}

// TestReplyAfterTheEnd: calls that end after their connection are released, in each way.
func TestReplyAfterTheEnd(t *testing.T) {
	for _, leads := range []bool{false, true} {
		c := unserved(t, ServerConfig{})
		c.calls.tryEnter()
		call := getCall(c)
		call.socket.begin(mem.Get(0))
		if leads {
			call.here = &c.receiver
		}
		call.res = *xdr.NewEncoder(nil)
		c.close()
		c.reply(call)
		c.flush() // as the receive loop does at its end
		if n := c.calls.held; n != 0 {
			t.Errorf("of the leader %v: %d calls are held", leads, n)
		}
	}
}
