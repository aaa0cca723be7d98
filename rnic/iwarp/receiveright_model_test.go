// Callers with random schedules: a goroutine receives each reply as soon as it comes.

package iwarp

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
)

// A singleReader is a connection that one goroutine at a time may read.
type singleReader struct {
	*rnictest.Ready
	t       *testing.T
	reading sync.Mutex
}

func (c *singleReader) TryRead(bufs [][]byte) (int, error) {
	if !c.reading.TryLock() {
		c.t.Error("two goroutines read at the same time")
		return 0, errors.New("two readers")
	}
	defer c.reading.Unlock()
	return c.Ready.TryRead(bufs)
}

// TestReceiveRightModel: in each random schedule at most one goroutine at a time receives, and each
// reply is handled at the moment in which it comes. A caller stays in PollUntil for two ticks at
// most, and the QP ends in each state of its callers.
func TestReceiveRightModel(t *testing.T) {
	taken := map[[2]owner]bool{}
	var mu sync.Mutex
	onOwner = func(from, to owner) {
		watchOwner(from, to)
		mu.Lock()
		defer mu.Unlock()
		taken[[2]owner{from, to}] = true
	}
	defer func() { onOwner = watchOwner }()
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := rnictest.ReadyPipe()
			d := newDriven(t, rnic.DeviceConfig{}, &singleReader{Ready: ours, t: t}, theirs)
			synctest.Wait() // the gate is open
			(&schedule{driven: d, rnd: rand.New(rand.NewPCG(seed, 0))}).run()
		})
		if t.Failed() {
			t.Fatalf("schedule %d", seed)
		}
	}
	for from, next := range nextOwners {
		for _, to := range next {
			if !taken[[2]owner{owner(from), to}] {
				t.Errorf("owner %d never becomes %d, which is drawn", from, to)
			}
		}
	}
}

// A schedule is a QP with callers, and a peer that answers all their calls.
type schedule struct {
	*driven
	rnd *rand.Rand

	mu      sync.Mutex
	came    []time.Time // when replies were sent
	handled []time.Time // when replies were handled
}

// some returns a multiple of a fraction of a tick, or 0, so that events often coincide.
func (s *schedule) some() time.Duration {
	if s.rnd.IntN(2) == 0 {
		return 0
	}
	return parkTick / 4 * time.Duration(s.rnd.IntN(1+s.rnd.IntN(14)))
}

func (s *schedule) run() {
	s.onHandle = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for len(s.handled) < len(s.came) {
			s.handled = append(s.handled, time.Now())
		}
	}
	var callers sync.WaitGroup
	calls := 0
	for range 1 + s.rnd.IntN(3) {
		type call struct {
			pause  time.Duration
			drives bool
		}
		var mine []call
		alone := s.rnd.IntN(4) > 0
		for range s.rnd.IntN(30) {
			mine = append(mine, call{s.some(), alone || s.rnd.IntN(2) == 0})
		}
		calls += len(mine)
		callers.Go(func() {
			for _, c := range mine {
				time.Sleep(c.pause)
				s.call(c.drives)
			}
		})
	}
	var delays []time.Duration
	for range calls {
		delays = append(delays, s.some())
	}
	var recalls []time.Duration
	for range s.rnd.IntN(5) {
		recalls = append(recalls, s.some())
	}
	callers.Go(func() {
		for _, d := range recalls {
			time.Sleep(d)
			s.qp.RecallReceiver()
		}
	})
	callers.Go(func() {
		for _, d := range delays {
			for int64(s.answers) == s.asked.Load() {
				time.Sleep(parkTick / 8)
			}
			time.Sleep(d)
			s.mu.Lock()
			s.came = append(s.came, time.Now())
			s.mu.Unlock()
			s.answer()
		}
	})
	callers.Wait()
	for i, came := range s.came {
		if d := s.handled[i].Sub(came); d > 0 {
			s.t.Errorf("reply %d was handled %v after it came", i, d)
		}
	}
	s.end()
}

// call makes a call, and waits for its reply as a caller that receives itself or one that does not.
func (s *schedule) call(drives bool) {
	done := s.ask()
	if drives {
		start := time.Now()
		s.qp.PollUntil(done)
		if d := time.Since(start); d > 2*parkTick {
			s.t.Errorf("a caller receives for %v, want at most %v", d, 2*parkTick)
		}
	} else {
		s.qp.EnsureReceiver()
	}
	for !done() {
		time.Sleep(parkTick / 4)
	}
}

// end ends the QP, with a caller that receives or without.
func (s *schedule) end() {
	var last sync.WaitGroup
	if s.rnd.IntN(2) == 0 {
		done := s.ask()
		last.Go(func() { s.qp.PollUntil(done) })
	}
	time.Sleep(s.some())
	start := time.Now()
	if s.rnd.IntN(2) == 0 {
		s.theirs.Close()
	} else {
		s.qp.Abort(rnic.ErrClosed)
	}
	<-s.qp.Done()
	last.Wait()
	if d := time.Since(start); d > 2*parkTick {
		s.t.Errorf("ended after %v, want at most %v", d, 2*parkTick)
	}
}
