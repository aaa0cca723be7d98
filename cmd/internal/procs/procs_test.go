// Go's scheduler gets the processors that are decided on.

package procs

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSchedulerFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := machineOf(2)
		ctx := t.Context()
		var goes atomic.Pointer[load]
		goes.Store(&load{})
		var last time.Time
		read := func() sample {
			now := time.Now()
			if !last.IsZero() {
				d, l := now.Sub(last).Seconds(), goes.Load()
				b.large, b.others, b.own = b.large+l.large*d, b.others+l.others*d, b.own+l.own*d
			}
			last, b.at = now, now
			return b.sample()
		}
		has := make(chan int, 1)
		go follow(ctx, &b.g, read, func(n int) { has <- n })
		time.Sleep(time.Second)
		goes.Store(&local)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(has) != 1 || <-has != 1 {
			t.Error("a stream beside its other end has left no processor to it")
		}
		goes.Store(&load{})
		time.Sleep(time.Second)
		synctest.Wait()
		if len(has) != 1 || <-has != 2 {
			t.Error("the end of the stream has not brought the processor back")
		}
	})
}

// All processors are as many as Go's scheduler finds by itself; fewer are as many as were said.
func TestSet(t *testing.T) {
	t.Cleanup(runtime.SetDefaultGOMAXPROCS)
	runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(0)
	g := &governor{all: all + 1, now: 1}
	g.set(1)
	if n := runtime.GOMAXPROCS(0); n != 1 {
		t.Errorf("%d processors, want 1", n)
	}
	g.set(g.all)
	if n := runtime.GOMAXPROCS(0); n != all || g.all != all || g.now != all {
		t.Errorf("%d processors, %+v; the scheduler has found %d", n, g, all)
	}
}
