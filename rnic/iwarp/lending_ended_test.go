// A receive loop that is taken away while it is lent: what it leaves to the next one, and what is told of what it has posted.

package iwarp

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A loop that the clock has ended takes none of the functions that are left to the next one, though its own has taken no time.
func TestEndedLoopTakesNoMore(t *testing.T) {
	grouping(t, func(g *grouper, msn *uint32) {
		s := streamOf(g.qp)
		g.after = []time.Duration{held}
		g.say(messages(msn, 1))
		synctest.Wait()
		for range 2 { // looks of the clock, with no time between
			s.watchLent()
		}
		synctest.Wait()
		s.lending.mu.Lock()
		s.lending.passes = 0
		s.lending.mu.Unlock()
		g.after = []time.Duration{heldOver, 0}
		g.say(messages(msn, 2)) // the second waits for the first
		synctest.Wait()
		close(g.hold)
		synctest.Wait()
		g.mu.Lock()
		if len(g.left) != 1 {
			t.Errorf("%d functions have been run, want 1", len(g.left))
		}
		g.mu.Unlock()
		close(g.over)
		for range 3 {
			g.hearULPDU()
		}
	})
}

// A function that has posted and then takes very long holds back no completion of what it has posted.
func TestLendTellsOfSends(t *testing.T) {
	hold, ended := make(chan struct{}), make(chan struct{})
	a, b := newLender(t, lendTick, func(qp *rnic.QP) {
		defer close(ended)
		if err := qp.PostSend(rnic.SendWR{ID: 2, Op: rnic.OpSend, SGL: [][]byte{{2}}}); err != nil {
			t.Error(err)
		}
		<-hold
	})
	recv(t, a.qp, 3, make([]byte, 16))
	post(t, a.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{{1}}, Unsignaled: true})
	until(t, func() bool { return b.told.Load() == 1 })
	close(hold)
	<-ended
}
