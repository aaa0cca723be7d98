// A receive loop that is replaced while it is lent: the functions that it leaves to the next loop,
// and the completions of its posts.

package iwarp

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestEndedLoopTakesNoMore: a loop that has been replaced runs none of the functions that are left
// to the next one. Its own function has taken no time.
func TestEndedLoopTakesNoMore(t *testing.T) {
	grouping(t, func(g *grouper, msn *uint32) {
		s := streamOf(g.qp)
		g.after = []time.Duration{held}
		g.say(messages(msn, 1))
		synctest.Wait()
		s.lending.lead.Busy(s.lending.lead.Current())
		synctest.Wait()
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

// TestLendCompletesSends: a function that posts and then runs for long delays no completion of its
// posts.
func TestLendCompletesSends(t *testing.T) {
	hold, ended := make(chan struct{}), make(chan struct{})
	a, b := newLender(t, lead.Tick, func(qp *rnic.QP) {
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

// The QP ends while its loop is lent.
func TestEndWhileLent(t *testing.T) {
	hold, ended := make(chan struct{}), make(chan struct{})
	var began atomic.Bool
	a, b := newLender(t, lead.Tick, func(*rnic.QP) {
		began.Store(true)
		<-hold
		close(ended)
	})
	b.message(t, a)
	until(t, began.Load)
	b.qp.Close()
	a.qp.Close()
	close(hold)
	<-ended
}
