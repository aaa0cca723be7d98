// The gate of a connection.

package transport

import (
	"testing"
	"testing/synctest"
)

// A gate is full by calls or by octets, and opens when calls leave.
func TestGateFull(t *testing.T) {
	for name, hold := range map[string]int{"calls": 0, "octets": 60} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				most := 3
				if hold > 0 {
					most = 100
				}
				var g gate
				g.init(1, most, 150)
				for range 3 {
					if !g.tryEnter() {
						t.Fatal("full too early")
					}
					g.hold(hold)
				}
				if g.tryEnter() {
					t.Fatal("not full")
				}
				entered := false
				go func() { entered = g.enter() }()
				synctest.Wait()
				if entered {
					t.Error("entered though it is full")
				}
				g.leave(hold)
				synctest.Wait()
				if !entered {
					t.Error("not entered though a call has left")
				}
			})
		})
	}
}

// A gate that is shut lets nobody wait.
func TestGateShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		g.init(1, 1, 1)
		g.enter()
		result := make(chan bool)
		go func() { result <- g.enter() }()
		synctest.Wait()
		g.shutDown()
		if <-result {
			t.Error("entered a gate that is shut")
		}
		idle := false
		go func() { g.waitIdle(); idle = true }()
		synctest.Wait()
		if idle {
			t.Error("idle with a call held")
		}
		g.leave(0)
		synctest.Wait()
		if !idle {
			t.Error("not idle though all calls have left")
		}
	})
}

// Calls beyond the workers take over a worker in the order of their arrival.
func TestGateQueue(t *testing.T) {
	var g gate
	g.init(2, 10, 1)
	calls := make([]Call, 5)
	for i := range calls {
		if got, want := g.admit(&calls[i]), i < 2; got != want {
			t.Errorf("call %d admitted: %v", i, got)
		}
	}
	for i := 2; i < 5; i++ {
		if got := g.done(); got != &calls[i] {
			t.Errorf("call %d was not the next", i)
		}
	}
	for range 2 {
		if g.done() != nil {
			t.Error("a call that nobody queued")
		}
	}
	if g.running != 0 {
		t.Errorf("%d run at the end", g.running)
	}
}
