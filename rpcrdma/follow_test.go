// Handlers that wait on the goroutine where their call arrived: another goroutine receives
// meanwhile.

package rpcrdma

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A busyServer serves calls on the goroutine where they arrive, and often waits: then another
// goroutine takes over the receive side.
type busyServer struct {
	echoServer
	rnd *rand.Rand // used by the leader only

	leader   int // calls; owned by the leader, without a lock
	leading  atomic.Int32
	moved    atomic.Int32 // calls that have waited
	apart    atomic.Int32 // calls on a goroutine that cannot be replaced (CanFollow is false)
	followed sync.WaitGroup
}

func (s *busyServer) ServeRPC(r *Request) (leads bool) {
	if !r.CanFollow() { // by the transmit loop, or from the backlog
		s.apart.Add(1)
		s.serve(r)
		return true
	}
	if n := s.leading.Add(1); n != 1 {
		panic("two goroutines receive")
	}
	s.leader++
	how, pause := s.rnd.IntN(4), time.Duration(s.rnd.IntN(200))*time.Microsecond
	c := r.Conn()
	s.leading.Add(-1)
	if how < 2 {
		s.serve(r)
		return true
	}
	s.moved.Add(1)
	follow := func() { s.followed.Go(c.Follow) }
	if how == 2 { // the handler announces its wait
		follow()
		time.Sleep(pause)
		s.serve(r)
	} else { // a timer starts the next receiver, perhaps after the handler has replied
		s.serve(r)
		s.followed.Go(func() {
			time.Sleep(pause)
			follow()
		})
	}
	return false
}

// TestBusyHandlers: each call is served once, while the receiving goroutine changes in the middle
// of batches. Replies collected for one post leave too.
func TestBusyHandlers(t *testing.T) { overProviders(t, testBusyHandlers) }

func testBusyHandlers(t *bed) {
	s := &busyServer{rnd: rand.New(rand.NewPCG(1, 2))}
	c, srv := pair(t, Config{Credits: 64}, Config{Handler: s, Credits: 16})
	const callers, calls = 12, 60
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			a := &caller{c: c, xid: uint32(i+1) << 16, data: make([]byte, 3000)}
			for j := range calls {
				if err := a.call([]uint32{procNull, procRead, procWrite}[(i+j)%3]); err != nil {
					t.Errorf("call %d of caller %d: %v", j, i, err)
					return
				}
			}
		})
	}
	all.Wait()
	if n := s.calls.Load(); n != 0 {
		t.Errorf("%d calls by the other way", n)
	}
	if n := s.moved.Load(); n < calls {
		t.Errorf("%d calls have waited, want more", n)
	}
	if got, want := s.leader+int(s.apart.Load()), callers*calls; got != want {
		t.Errorf("%d calls were served, want %d", got, want)
	}
	c.Close()
	srv.Close()
	checkReleased(t, c, srv)
	s.followed.Wait()
}

// TestEndWhileBusy: the connection ends while a handler waits, and its goroutine was replaced; the
// call's reply is refused.
func TestEndWhileBusy(t *testing.T) { overProviders(t, testEndWhileBusy) }

func testEndWhileBusy(t *bed) {
	s := &holdServer{entered: make(chan struct{}), hold: make(chan struct{}), ended: make(chan error, 1)}
	c, srv := pair(t, Config{}, Config{Handler: s})
	go func() { _ = (&caller{c: c, xid: 1}).call(procNull) }()
	<-s.entered
	c.Close()
	srv.Close()
	close(s.hold)
	if err := <-s.ended; err == nil {
		t.Error("a reply after the end is taken")
	}
	checkReleased(t, srv)
}

// A holdServer keeps each call until hold is closed, while the connection continues.
type holdServer struct {
	entered, hold chan struct{}
	ended         chan error
}

func (s *holdServer) ServeRPC(r *Request) (leads bool) {
	go r.Conn().Follow()
	close(s.entered)
	<-s.hold
	s.ended <- r.RejectChunks()
	return false
}
