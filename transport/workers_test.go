// The worker pool, and the log's limit.

package transport

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Workers are reused, the last one first, and retire when unneeded.
func TestWorkersAreReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		via := newTape("10.0.0.1")
		via.work.most, via.work.slots = 100, 1000
		hold := make(chan struct{})
		p := workerPool{run: func(*Call) { <-hold }}
		p.init(100, 8, nil)
		p.join(&via.work, via.peer.client())
		start := func(n int) {
			for range n {
				p.submit(&Call{via: via})
			}
			synctest.Wait()
		}
		idle := func() []*worker {
			p.mu.Lock()
			defer p.mu.Unlock()
			return slices.Clone(p.idle)
		}
		start(3)
		close(hold)
		synctest.Wait()
		if len(idle()) != 3 {
			t.Fatalf("%d workers are idle, want 3", len(idle()))
		}
		cold := idle()[0]
		for range 5 {
			start(1)
		}
		if len(idle()) != 3 || idle()[0] != cold {
			t.Errorf("%d workers are idle; the coldest was used: %v", len(idle()), idle()[0] != cold)
		}
		time.Sleep(workerIdle / 2)
		start(1) // the others have been idle for longer
		time.Sleep(workerIdle/2 + time.Second)
		synctest.Wait()
		if len(idle()) != 1 || idle()[0] == cold {
			t.Errorf("%d workers are idle, want the one that was used", len(idle()))
		}
		time.Sleep(workerIdle)
		synctest.Wait()
		if len(idle()) != 0 {
			t.Errorf("%d workers are idle after a long time in which nothing happened", len(idle()))
		}
		start(2)
		time.Sleep(2 * workerIdle)
		synctest.Wait()
		if len(idle()) != 0 {
			t.Errorf("%d workers are idle after another pause", len(idle()))
		}
		p.close(true)
	})
}

func TestRateLog(t *testing.T) {
	var l RateLog
	now := time.Now()
	if _, ok := l.admit("a", 1, now); !ok {
		t.Error("the first line was kept back")
	}
	for range 3 {
		if _, ok := l.admit("a", 1, now.Add(time.Second-1)); ok {
			t.Error("a second line within the second")
		}
	}
	if _, ok := l.admit("b", 1, now); !ok {
		t.Error("another cause was kept back")
	}
	if n, ok := l.admit("a", 1, now.Add(time.Second)); !ok || n != 3 {
		t.Errorf("after a second: %d kept back, %v", n, ok)
	}
	lines := 0
	for i := range 1000 { // within half a second, after a pause
		if _, ok := l.admit("burst", 20, now.Add(time.Hour+time.Duration(i)*time.Millisecond/2)); ok {
			lines++
		}
	}
	if n, ok := l.admit("burst", 20, now.Add(time.Hour+time.Second)); lines != 20 || !ok || n != 980 {
		t.Errorf("%d lines of a burst of 20, then %d kept back, %v", lines, n, ok)
	}
	for i := range 2 * maxCauses {
		l.admit(Cause(rune('A'+i)), 1, now)
	}
	if len(l.causes) > maxCauses {
		t.Errorf("%d causes are remembered", len(l.causes))
	}
}
