// A connection's gate.

package transport

import (
	"testing"
	"testing/synctest"
)

// A gate is full by calls or by bytes, and opens when calls leave.
func TestGateFull(t *testing.T) {
	for name, hold := range map[string]int{"calls": 0, "bytes": 60} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				most := 3
				if hold > 0 {
					most = 100
				}
				var g gate
				g.init(most, 150)
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

// A shut gate makes no caller wait.
func TestGateShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		g.init(1, 1)
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
