// Slow and silent servers, in simulated time.

package transport

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A simulated is a TCP Client with its server in the test's bubble.
type simulated struct {
	*Client
	p        *testProgram
	dials    atomic.Int32
	silenced atomic.Bool // new connections lead to no server
	heard    chan bool   // Responding's arguments
	tooMany  func()      // called after far too many connections
}

// simulate serves the test program in the bubble, and connects to it.
func simulate(t *testing.T, cfg ClientConfig) *simulated {
	simulateCalls(t)
	return simulateBeside(t, cfg)
}

// simulateCalls gives the test its own pool of calls: older calls have real-time timers. Call it
// at a test's beginning, when the pool is unused.
func simulateCalls(t *testing.T) {
	pool := outCallPool
	outCallPool = newOutCallPool()
	t.Cleanup(func() { outCallPool = pool })
}

// simulateBeside does the same as simulate, for one more Client in the same bubble.
func simulateBeside(t *testing.T, cfg ClientConfig) *simulated {
	s := &simulated{p: newTestProgram(), heard: make(chan bool, 16)}
	server := NewServer(ServerConfig{}, s.p.program())
	l := rnictest.Listen()
	done := make(chan error, 1)
	go func() { done <- server.ServeTCP(l) }()
	cfg.Service, cfg.Responding = "nfs", func(ok bool) { s.heard <- ok }
	s.Client = newClient(cfg, "server:2049")
	s.dial = func(context.Context) (clientConn, error) {
		s.dials.Add(1)
		if s.silenced.Load() {
			near, far := net.Pipe()
			t.Cleanup(func() { far.Close() })
			go func() { // reads all and answers nothing
				for b := make([]byte, 1024); ; {
					if _, err := far.Read(b); err != nil {
						return
					}
				}
			}()
			return newTCPClientConn(near, &s.cfg), nil
		}
		nc, err := l.Dial()
		if err != nil {
			return nil, err
		}
		return newTCPClientConn(nc, &s.cfg), nil
	}
	if _, err := s.connectFirst(bg); err != nil {
		t.Fatalf("connectFirst: %v", err)
	}
	t.Cleanup(func() {
		s.p.release()
		s.Close()
		shutdown(t, server, done)
	})
	return s
}

// A long call stays on its connection and runs once while the server answers a NULL; others are
// served meanwhile.
func TestLongCallKeepsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulate(t, ClientConfig{CallTimeout: Hard})
		errs := make(chan error, 1)
		go func() { errs <- s.Call(bg, testProc(tHold), nil, words{0}, nil, 0) }()
		<-s.p.entered
		time.Sleep(10 * time.Minute)
		if err := s.Call(bg, testProc(tNull), nil, nil, nil, 0); err != nil {
			t.Errorf("Call: %v", err)
		}
		s.p.release()
		if err := <-errs; err != nil {
			t.Errorf("the long call: %v", err)
		}
		runs, dials := s.p.runs.Load(), s.dials.Load()
		must.Equal(t, "runs", runs, 1)
		must.Equal(t, "dials", dials, 1)
		must.Equal(t, "len(s.heard)", len(s.heard), 0)
	})
}

// A call past CallTimeout fails, and leaves the connection to the others.
func TestExpiredCallKeepsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulate(t, ClientConfig{CallTimeout: 30 * time.Second})
		begin := time.Now()
		err := s.Call(bg, testProc(tHold), nil, words{0}, nil, 0)
		if err == nil || err.Error() != "nfs server server:2049 does not answer: no answer in time" || time.Since(begin) != 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		if err := s.Call(bg, testProc(tNull), nil, nil, nil, 0); err != nil || s.dials.Load() != 1 {
			t.Errorf("the next: %v, %d connections", err, s.dials.Load())
		}
	})
}

// A call's timer may still have the previous call's deadline: then it fires early, which ends
// nothing. A Client without timeout is not affected by another's timer whose calls it reuses.
func TestTimerOfAnEarlierCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulate(t, ClientConfig{CallTimeout: 30 * time.Second})
		if err := s.Call(bg, testProc(tNull), nil, nil, nil, 0); err != nil {
			t.Fatalf("Call: %v", err)
		}
		time.Sleep(20 * time.Second)
		begin := time.Now()
		if err := s.Call(bg, testProc(tHold), nil, words{0}, nil, 0); err == nil || time.Since(begin) != 30*time.Second {
			t.Errorf("%v after %v, want no answer after 30s", err, time.Since(begin))
		}
		if err := s.Call(bg, testProc(tNull), nil, nil, nil, 0); err != nil {
			t.Errorf("Call: %v", err)
		}
		patient := simulateBeside(t, ClientConfig{CallTimeout: Hard})
		errs := make(chan error, 1)
		go func() { errs <- patient.Call(bg, testProc(tHold), nil, words{0}, nil, 0) }()
		<-patient.p.entered
		time.Sleep(time.Hour)
		patient.p.release()
		if err := <-errs; err != nil {
			t.Errorf("the call of a client that waits for ever: %v", err)
		}
	})
}

// A server's silence is reported once, its connections are discarded one after another while the
// call waits, and the call succeeds when it answers again.
func TestSilenceIsReportedOnceAndOutlived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulate(t, ClientConfig{CallTimeout: Hard})
		s.silenced.Store(true)
		s.discard(s.current(), errors.New("cut"))
		out := make(chan error, 1)
		go func() { out <- s.Call(bg, testProc(tAdd), words{1, 2}, words{0}, nil, 0) }()
		time.Sleep(noticeTime / 2)
		if len(s.heard) != 0 {
			t.Error("reported at once")
		}
		time.Sleep(5 * time.Minute)
		if len(s.heard) != 1 || <-s.heard {
			t.Error("not reported once as silent")
		}
		if !s.Silent() {
			t.Error("not silent")
		}
		if n := s.dials.Load(); n < 10 || n > 18 { // one in RetryTimeout, 20 s
			t.Errorf("%d connections in 5 minutes", n)
		}
		s.silenced.Store(false)
		if err := <-out; err != nil {
			t.Errorf("the call: %v", err)
		}
		time.Sleep(time.Minute)
		if len(s.heard) != 1 || !<-s.heard || s.Silent() {
			t.Error("its return is not reported once")
		}
	})
}

// A server that accepts and closes connections is retried with pauses, for one repeated call as
// well as for many callers with one try each.
func TestReconnectsToAFullServerArePaced(t *testing.T) {
	for _, retries := range []int{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			s := simulate(t, ClientConfig{CallTimeout: time.Minute, MaxRetries: retries})
			s.closing(t, false)
			for end := time.Now().Add(time.Minute); time.Now().Before(end) && s.dials.Load() < 1000; {
				if err := s.Call(bg, testProc(tNull), nil, nil, nil, 0); err == nil {
					t.Error("served")
				}
			}
			if n := s.dials.Load(); n < 10 || n > 80 {
				t.Errorf("MaxRetries %d: %d connections in a minute", retries, n)
			}
		})
	}
}

// A call that ends each of its connections also pauses, even though other calls there are
// answered.
func TestRepeatsOfADeadlyCallArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulate(t, ClientConfig{CallTimeout: time.Minute})
		s.closing(t, true)
		ctx, cancel := context.WithCancel(bg)
		defer cancel()
		s.tooMany = cancel
		if err := s.Call(ctx, testProc(tNull), nil, nil, nil, 0); err == nil {
			t.Error("served")
		}
		if n := s.dials.Load(); n < 10 || n > 80 {
			t.Errorf("%d connections in a minute", n)
		}
	})
}

// closing makes the server cut each connection from now on at its first call; with busy, only after
// it has answered other calls.
func (s *simulated) closing(t *testing.T, busy bool) {
	good := s.dial
	s.dial = func(ctx context.Context) (clientConn, error) {
		if s.dials.Load() > 1000 && s.tooMany != nil {
			s.tooMany()
		}
		l, err := good(ctx)
		return &closingConn{l, s, busy}, err
	}
	s.discard(s.current(), errors.New("cut"))
}

// A closingConn is cut by the server at each call.
type closingConn struct {
	clientConn
	s    *simulated
	busy bool
}

func (l *closingConn) roundTrip(context.Context, *outCall) error {
	if l.busy {
		l.s.answers.Add(1)
	}
	return &lostError{errors.New("closed by the server")}
}
