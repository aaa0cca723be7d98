// The client after a lost connection, or without a server.

package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// A call running when its connection is cut is retransmitted under its XID, and executed once.
func TestReconnect(t *testing.T) {
	conformance.Proves(t, "R8166-170")
	overEach(t, func(t *testing.T, n network) {
		p, s, addr := n.start(t, ServerConfig{})
		c := n.client(t, addr, ClientConfig{})
		errs := make(chan error, 1)
		go func() { errs <- c.Call(bg, testProc(tHold), nil, words{0}, nil, 0) }()
		<-p.entered
		cut(s)
		out := words{0}
		if err := c.Call(bg, testProc(tAdd), words{1, 2}, out, nil, 0); err != nil || out[0] != 3 {
			t.Errorf("call after the cut: %v, %v", out, err)
		}
		p.release()
		if err := <-errs; err != nil {
			t.Errorf("call that ran: %v", err)
		}
		if runs := p.runs.Load(); runs != 1 {
			t.Errorf("it ran %d times", runs)
		}
	})
}

// cut closes all connections of a server that continues to serve.
func cut(s *Server) {
	s.mu.Lock()
	var conns []serverConn
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.close()
	}
}

// Non-idempotent calls run exactly once each, however often their connections are cut.
func TestExactlyOnceUnderCuts(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		p, s, addr := n.start(t, ServerConfig{Workers: 4})
		const callers, each, cuts = 8, 150, 12
		var wg sync.WaitGroup
		var answered atomic.Int32
		var seen sync.Map
		clients := make([]*Client, callers)
		for g := range clients { // before the cuts: a dial is one attempt
			clients[g] = n.client(t, addr, ClientConfig{})
		}
		for g, c := range clients {
			wg.Go(func() {
				for i := range each {
					out := words{0}
					if err := c.Call(bg, testProc(tCount), words{uint32(g*each + i)}, out, nil, 0); err != nil {
						t.Errorf("call %d of caller %d: %v", i, g, err)
						return
					}
					if _, dup := seen.LoadOrStore(out[0], g); dup {
						t.Errorf("two calls have the reply %d", out[0])
					}
					if answered.Add(1)%(callers*each/cuts) == 0 {
						cut(s)
					}
				}
			})
		}
		wg.Wait()
		if runs := p.runs.Load(); runs != callers*each {
			t.Errorf("%d calls ran %d times", callers*each, runs)
		}
	})
}

// A server restarted on the same port is found again.
func TestServerComesBack(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		p := newTestProgram()
		s := NewServer(ServerConfig{}, p.program())
		addr, done, err := n.serve(s, fmt.Sprint("127.0.0.1:", machine.Port(t)))
		if err != nil {
			t.Fatalf("serve: %v", err)
		}
		c := n.client(t, addr, ClientConfig{})
		if err := c.Call(bg, testProc(tNull), nil, nil, nil, 0); err != nil {
			t.Errorf("Call: %v", err)
		}
		shutdown(t, s, done)
		errs := make(chan error, 1)
		go func() { errs <- c.Call(bg, testProc(tNull), nil, nil, nil, 0) }()
		s = NewServer(ServerConfig{}, p.program())
		if _, done, err = n.serve(s, addr); err != nil {
			t.Fatalf("serve: %v", err)
		}
		if err := <-errs; err != nil {
			t.Errorf("after the server has come back: %v", err)
		}
		shutdown(t, s, done)
	})
}

func TestDialClosedPort(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		addr := fmt.Sprint("127.0.0.1:", machine.Port(t))
		_, err := n.dial(bg, addr, ClientConfig{Service: "nfs"})
		want := "nfs server " + addr + " does not answer: connection refused"
		if err == nil || err.Error() != want || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

// refused returns a client of a gone server, which has tried to reach it once, and the number of
// attempts.
func refused(t *testing.T, callTimeout time.Duration) (c *Client, dials *atomic.Int32) {
	c = newClient(ClientConfig{Service: "nfs", CallTimeout: callTimeout}, "server:20049")
	t.Cleanup(func() { c.Close() })
	dials = new(atomic.Int32)
	c.dial = func(context.Context) (clientConn, error) {
		dials.Add(1)
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	dialOnce(c)
	return c, dials
}

// dialOnce makes one connection attempt, while no other runs.
func dialOnce(c *Client) {
	c.dialing = make(chan struct{})
	c.reconnect(c.delay)
}

// A call to a gone server fails in time, with the reason in one line.
func TestCallToDeadServer(t *testing.T) {
	c, _ := refused(t, 300*time.Millisecond)
	err := c.Call(bg, testProc(tNull), nil, nil, nil, 0)
	const want = "nfs server server:20049 does not answer: connection refused"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	c, _ = refused(t, time.Hour)
	ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
	defer cancel()
	err = c.Call(ctx, testProc(tNull), nil, nil, nil, 0)
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "\n") {
		t.Errorf("with a context that ends: %v", err)
	}
}

// A client with a CallTimeout below its pause between dials still dials.
func TestDelayBeyondCallTimeout(t *testing.T) {
	c, dials := refused(t, time.Millisecond)
	c.delay = 20 * time.Millisecond
	if dialOnce(c); dials.Load() != 2 {
		t.Errorf("%d dials, want 2", dials.Load())
	}
}

// silent starts a TCP server that accepts connections and sends nothing. It returns the address.
func silent(t *testing.T) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	}()
	return l.Addr().String()
}

func TestSilentServer(t *testing.T) {
	addr := silent(t)
	c, err := DialTCP(bg, addr, ClientConfig{Service: "nfs", RetryTimeout: time.Second, MaxRetries: 2})
	if err != nil {
		t.Fatalf("DialTCP: %v", err)
	}
	defer c.Close()
	again, dial := 0, c.dial
	c.dial = func(ctx context.Context) (clientConn, error) { again++; return dial(ctx) }
	err = c.Call(bg, testProc(tNull), nil, nil, nil, 0)
	if err == nil || err.Error() != "nfs server "+addr+" does not answer: no answer in time" {
		t.Errorf("%v", err)
	}
	if again != 2 {
		t.Errorf("%d connections more, want 2", again)
	}
}

// A canceled call leaves the connection usable.
func TestCancel(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		p, s, addr := n.start(t, ServerConfig{})
		c := n.client(t, addr, ClientConfig{})
		ctx, cancel := context.WithCancel(bg)
		errs := make(chan error, 1)
		go func() { errs <- c.Call(ctx, testProc(tHold), nil, words{0}, make([]byte, 100), 0) }()
		<-p.entered
		cancel()
		if err := <-errs; err != context.Canceled {
			t.Errorf("cancelled: %v", err)
		}
		p.release()
		if err := c.Call(bg, testProc(tNull), nil, nil, nil, 0); err != nil {
			t.Errorf("after that: %v", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.conns) != 1 {
			t.Errorf("%d connections", len(s.conns))
		}
	})
}

func TestCloseEndsCalls(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		p, _, addr := n.start(t, ServerConfig{})
		c := n.client(t, addr, ClientConfig{})
		errs := make(chan error, 1)
		go func() { errs <- c.Call(bg, testProc(tHold), nil, nil, nil, 0) }()
		<-p.entered
		c.Close()
		if err := <-errs; err != ErrClosed {
			t.Errorf("call that ran: %v", err)
		}
		if err := c.Call(bg, testProc(tNull), nil, nil, nil, 0); err != ErrClosed {
			t.Errorf("call after Close: %v", err)
		}
	})
}
