// A server's limits, and its shutdown.

package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// Shutdown lets a running call end, and its reply leave.
func TestShutdownWaits(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		p := newTestProgram()
		s := NewServer(ServerConfig{}, p.program())
		addr, done, err := n.serve(s, "127.0.0.1:0")
		if err != nil {
			t.Fatalf("serve: %v", err)
		}
		c := n.client(t, addr, ClientConfig{MaxRetries: -1})
		errs := make(chan error, 1)
		go func() { errs <- c.Call(bg, testProc(tHold), nil, words{0}, nil, 0) }()
		<-p.entered
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(bg) }()
		<-done
		p.release()
		if err := <-errs; err != nil {
			t.Errorf("call that ran: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if _, _, err := n.serve(s, "127.0.0.1:0"); err != nil {
			t.Fatalf("serve: %v", err)
		}
		if err := s.Shutdown(bg); err != nil {
			t.Errorf("Shutdown again: %v", err)
		}
	})
}

// An expired Shutdown cuts calls off, and a procedure notices it by its Ctx.
func TestShutdownCutsOff(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		entered := make(chan struct{})
		prog := &Program{Name: "TEST", Number: testProg, Version: testVers, Procs: []Procedure{{Name: "WAIT", Run: func(c *Call) error {
			close(entered)
			<-c.Ctx.Done()
			return c.Ctx.Err()
		}}}}
		s := NewServer(ServerConfig{}, prog)
		addr, _, err := n.serve(s, "127.0.0.1:0")
		if err != nil {
			t.Fatalf("serve: %v", err)
		}
		c := n.client(t, addr, ClientConfig{MaxRetries: -1})
		errs := make(chan error, 1)
		go func() { errs <- c.Call(bg, testProc(0), nil, nil, nil, 0) }()
		<-entered
		ctx, cancel := context.WithCancel(bg)
		cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown: %v", err)
		}
		var ce *ConnectError
		if err := <-errs; !errors.As(err, &ce) {
			t.Errorf("call: %v", err)
		}
	})
}

// A procedure that is cut off by its Ctx and fails sends no reply over a connection that still
// exists: the client must repeat the call.
func TestCutOffCallHasNoReply(t *testing.T) {
	entered := make(chan struct{})
	s := NewServer(ServerConfig{}, &Program{Name: "TEST", Number: testProg, Version: testVers, Procs: []Procedure{{Name: "WAIT", Run: func(c *Call) error {
		close(entered)
		<-c.Ctx.Done()
		return c.Ctx.Err()
	}}}})
	addr, done, err := listenRDMA(s, "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listenRDMA: %v", err)
	}
	defer shutdown(t, s, done)
	c := networks[1].client(t, addr, ClientConfig{MaxRetries: -1})
	errs := make(chan error, 1)
	go func() { errs <- c.Call(bg, testProc(0), nil, nil, nil, 0) }()
	<-entered
	s.mu.Lock()
	var r *rdmaConn
	for conn := range s.conns {
		r = conn.(*rdmaConn)
	}
	s.mu.Unlock()
	r.end() // as close does, but the connection stays until the call has ended
	r.calls.waitIdle()
	r.close()
	var ce *ConnectError
	if err := <-errs; !errors.As(err, &ce) {
		t.Errorf("call: %v", err)
	}
}

// A connection's concurrent calls are limited by its workers; others wait, and all are answered.
func TestWorkersAreBounded(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		const workers = 3
		p, _, addr := n.start(t, ServerConfig{Workers: workers})
		c := n.client(t, addr, ClientConfig{})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := c.Call(bg, testProc(tHold), nil, words{0}, nil, 0); err != nil {
					t.Errorf("Call: %v", err)
				}
			})
		}
		for range workers {
			<-p.entered
		}
		if strings.HasPrefix(n.name, "RDMA") { // TCP is not read further: nothing passes waiting calls
			if err := c.Call(bg, testProc(tNull), nil, nil, nil, 0); err != nil {
				t.Errorf("Call: %v", err)
			}
		}
		if got := p.runs.Load(); got != workers {
			t.Errorf("%d run at once", got)
		}
		p.release()
		wg.Wait()
	})
}

// raw connects without a client.
func raw(t *testing.T, addr string) net.Conn {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(time.Minute))
	return nc
}

// wantCut expects the server to end the connection without another byte.
func wantCut(t *testing.T, nc net.Conn) {
	t.Helper()
	n, err := io.Copy(io.Discard, nc)
	if n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v; want the end of the connection", n, err)
	}
}

func TestTCPLimits(t *testing.T) {
	_, _, addr := networks[0].start(t, ServerConfig{MaxRecord: 4096, MaxConns: 3, HalfTimeout: 50 * time.Millisecond})
	t.Run("half a record", func(t *testing.T) {
		nc := raw(t, addr)
		nc.Write([]byte{0x80, 0, 0, 40, 1, 2, 3})
		wantCut(t, nc)
	})
	t.Run("record too large", func(t *testing.T) {
		nc := raw(t, addr)
		nc.Write([]byte{0x80, 0, 0x10, 1})
		wantCut(t, nc)
	})
	t.Run("fragments without end", func(t *testing.T) {
		nc := raw(t, addr)
		nc.Write(make([]byte, 4*(maxFragments+1)))
		wantCut(t, nc)
	})
}

func TestMaxConns(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		_, _, addr := n.start(t, ServerConfig{MaxConns: 2})
		for range 2 {
			c := n.client(t, addr, ClientConfig{})
			if err := c.Call(bg, testProc(tNull), nil, nil, nil, 0); err != nil {
				t.Errorf("Call: %v", err)
			}
		}
		c, err := n.dial(bg, addr, ClientConfig{CallTimeout: 200 * time.Millisecond})
		if err == nil {
			defer c.Close()
			err = c.Call(bg, testProc(tNull), nil, nil, nil, 0)
		}
		if err == nil {
			t.Error("a third connection was served")
		}
	})
}

// Connections without a call make room for those with calls, oldest first, and so do long-idle
// ones; connections in use stay.
func TestMakeRoom(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		_, s, addr := n.start(t, ServerConfig{MaxConns: 3})
		null := func(c *Client) error { return c.Call(bg, testProc(tNull), nil, nil, nil, 0) }
		used := n.client(t, addr, ClientConfig{MaxRetries: -1})
		if err := null(used); err != nil {
			t.Fatalf("null: %v", err)
		}
		for range 12 {
			idleConn(t, n, addr)
		}
		if err := null(n.client(t, addr, ClientConfig{MaxRetries: -1})); err != nil {
			t.Errorf("behind connections that do nothing: %v", err)
		}
		if err := null(used); err != nil {
			t.Errorf("in use before: %v", err)
		}
		s.mu.Lock()
		if got := len(s.conns) - s.leaving; got > 3 {
			t.Errorf("%d connections", got)
		}
		s.mu.Unlock()
	})
}

// idleConn opens a connection, including an RDMA connection's start-up, and makes no call.
func idleConn(t *testing.T, n network, addr string) {
	t.Helper()
	switch n.name {
	case "TCP":
		raw(t, addr)
		return
	case "TLS": // half a handshake is no call
		if err := probeTLS(raw(t, addr)); err != nil {
			t.Fatalf("probe: %v", err)
		}
		return
	}
	c, err := rpcrdma.Dial(bg, iwarp.Open(rnic.DeviceConfig{}), addr, rpcrdma.Config{})
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
}

func TestIdlest(t *testing.T) {
	s := NewServer(ServerConfig{})
	busy, idle := &tcpConn{}, &tcpConn{}
	s.conns[busy], s.conns[idle] = true, true
	now := time.Now()
	for range 10 {
		if c := s.idlest(now, nil); c != nil {
			t.Fatalf("too early: %p", c)
		}
		busy.used.calls.Add(1)
		now = now.Add(idleAge / 9)
	}
	if c := s.idlest(now, nil); c != idle {
		t.Errorf("%p, want %p", c, idle)
	}
	if c := s.idlest(now.Add(idleScan/2), nil); c != nil {
		t.Errorf("looked through too often: %p", c)
	}
}

// A peer that sends calls and reads no reply is not read further, and is cut off.
func TestSlowReader(t *testing.T) {
	_, s, addr := networks[0].start(t, ServerConfig{Workers: 2, Budget: mem.NewBudget(16 << 20), HalfTimeout: 200 * time.Millisecond})
	nc := raw(t, addr)
	call := fragment(callOf(1, tRead, 1<<20).Stream, true)
	var err error
	for err == nil {
		_, err = nc.Write(bytes.Repeat(call, 100))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("it was not cut off")
	}
	s.Shutdown(bg)
	if n := s.budgetUsed(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

// A peer that closes its direction after its calls gets all replies.
func TestHalfClose(t *testing.T) {
	p, _, addr := networks[0].start(t, ServerConfig{})
	nc := raw(t, addr)
	for xid := range uint32(3) {
		nc.Write(fragment(callOf(xid, tHold, 0).Stream, true))
	}
	nc.(*net.TCPConn).CloseWrite()
	for range 3 {
		<-p.entered
	}
	p.release()
	b, err := io.ReadAll(nc)
	if err != nil || len(b) != 3*(markLen+28) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// The budget refuses large results, and delays large arguments until there is room.
func TestMemoryBudget(t *testing.T) {
	_, s, addr := networks[0].start(t, ServerConfig{Budget: mem.NewBudget(1 << 20), MaxRecord: 1 << 20})
	c := networks[0].client(t, addr, ClientConfig{})
	if err := c.Call(bg, testProc(tRead), words{1<<20 + 1}, &readRes{}, make([]byte, 2<<20), 0); err != ErrSystem {
		t.Errorf("READ over the budget: %v", err)
	}
	b := make([]byte, 700<<10)
	var wg sync.WaitGroup
	clients := []*Client{c, networks[0].client(t, addr, ClientConfig{}), networks[0].client(t, addr, ClientConfig{})}
	for _, c := range slices.Repeat(clients, 4) {
		wg.Go(func() {
			out := words{0, 0}
			if err := c.Call(bg, testProc(tWrite), &writeArgs{b}, out, nil, 0); err != nil || out[0] != uint32(len(b)) {
				t.Errorf("WRITE: %v %v", out, err)
			}
		})
	}
	wg.Wait()
	s.Shutdown(bg)
	if n := s.budgetUsed(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

// An undecodable reply has its own error, over each network.
func TestBadReply(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		_, _, addr := n.start(t, ServerConfig{})
		c := n.client(t, addr, ClientConfig{})
		err := c.Call(bg, testProc(tAdd), words{1, 2}, make(words, 5), nil, 0)
		if !errors.Is(err, ErrBadReply) || !errors.Is(err, xdr.ErrShort) {
			t.Errorf("%v", err)
		}
	})
}

// TestShutdownWithHungCall: an Inline procedure that hangs and was never busy holds up Shutdown for
// a limited time.
func TestShutdownWithHungCall(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		entered, hold := make(chan struct{}), make(chan struct{})
		s := NewServer(ServerConfig{}, &Program{Name: "hung", Number: testProg, Version: testVers, Procs: []Procedure{
			{Name: "NULL", Inline: true, Idempotent: true, Run: func(*Call) error { return nil }},
			{Name: "HANG", Inline: true, Idempotent: true, Run: func(*Call) error { close(entered); <-hold; return nil }},
		}})
		s.stuckWait = 100 * time.Millisecond
		addr, done, err := n.serve(s, "127.0.0.1:0")
		if err != nil {
			t.Fatalf("serve: %v", err)
		}
		c := n.client(t, addr, ClientConfig{})
		go c.Call(context.Background(), testProc(1), words{}, words{}, nil, 0)
		<-entered
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		over := make(chan error, 1)
		go func() { over <- s.Shutdown(ctx) }()
		select {
		case err := <-over:
			var stuck *StuckError
			if !errors.As(err, &stuck) {
				t.Errorf("Shutdown: %v, want a *StuckError", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Shutdown does not return")
		}
		close(hold)
		<-done
	})
}
