// A model of a source with a leader that runs requests, with random schedules in simulated time.

package lead

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A call is a request of the model.
type call struct {
	came          time.Time
	before, after time.Duration // durations until the call declares itself busy, and after that
	busy          int           // how often it declares that
	ran           int           // number of its runs; guarded by source.mu
}

// A source has requests, and goroutines that lead or have led.
type source struct {
	t     *testing.T
	lead  Leader
	calls chan *call
	runs  sync.WaitGroup
	ended chan struct{} // closed by the leader when there are no more requests

	mu      sync.Mutex
	leaders int // goroutines that receive
	taken   map[[2]state]bool

	received time.Time // the latest request; owned by the leader, without a lock
}

func (s *source) follow() { go s.receive() }

// holds adds n to the number of goroutines that receive: 1 when one begins, -1 when one stops.
func (s *source) holds(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaders += n; s.leaders < 0 || s.leaders > 1 {
		s.t.Errorf("%d leaders", s.leaders)
	}
}

// receive runs the leader, until there are no more requests or another goroutine leads.
func (s *source) receive() {
	s.holds(1)
	for c := range s.calls {
		waits := c.came // it waits for the leader from now on
		if s.received.After(waits) {
			waits = s.received
		}
		s.received = time.Now()
		if d := s.received.Sub(waits); d > 2*Tick {
			s.t.Errorf("a request waited for %v with no leader, want at most %v", d, 2*Tick)
		}
		s.runs.Add(1)
		r := s.lead.Begin()
		s.holds(-1)
		s.run(c, r)
		if !s.lead.End(r) {
			return
		}
		s.holds(1)
	}
	s.holds(-1)
	close(s.ended)
}

func (s *source) run(c *call, r Run) {
	defer s.runs.Done()
	time.Sleep(c.before)
	for range c.busy {
		s.lead.Busy(r)
	}
	time.Sleep(c.after)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ran++
}

// TestModel: in each random schedule there is at most one leader. No request waits for a leader for
// more than two ticks, and each request runs once.
func TestModel(t *testing.T) {
	taken := map[[2]state]bool{}
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			s := &source{t: t, calls: make(chan *call, 1000), ended: make(chan struct{}), taken: taken}
			s.lead.Init(NewClock(Tick), s.follow)
			s.lead.onState = func(from, to state) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.taken[[2]state{from, to}] = true
			}
			s.follow()
			all := s.random(rand.New(rand.NewPCG(seed, 0)))
			close(s.calls)
			<-s.ended
			s.runs.Wait()
			for i, c := range all {
				if c.ran != 1 {
					t.Errorf("request %d was run %d times, want 1", i, c.ran)
				}
			}
			if n := s.lead.Counts().Ran; n != uint64(len(all)) {
				t.Errorf("%d runs of %d requests", n, len(all))
			}
			time.Sleep(2 * Tick)
			synctest.Wait() // the clock has stopped
		})
		if t.Failed() {
			t.Fatalf("schedule %d", seed)
		}
	}
	wantDrawn(t, taken)
}

// random sends requests by several programs, and returns all.
func (s *source) random(rnd *rand.Rand) (all []*call) {
	// Durations are multiples of a quarter tick, so that events often coincide.
	some := func() time.Duration {
		if rnd.IntN(2) == 0 {
			return 0
		}
		return Tick / 4 * time.Duration(rnd.IntN(1+rnd.IntN(20)))
	}
	var programs sync.WaitGroup
	for range 1 + rnd.IntN(4) {
		var mine []*call
		var pauses []time.Duration
		for range rnd.IntN(50) {
			mine = append(mine, &call{before: some(), after: some(), busy: max(0, rnd.IntN(5)-2)})
			pauses = append(pauses, some())
		}
		all = append(all, mine...)
		programs.Go(func() {
			for i, c := range mine {
				time.Sleep(pauses[i])
				c.came = time.Now()
				s.calls <- c
			}
		})
	}
	programs.Wait()
	return all
}
