// The receive loop lent: who runs what is left, and who receives meanwhile.

package iwarp

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/internal/wait"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
)

// A lender is a QP whose handler leaves work for each message.
type lender struct {
	*side
	work func(qp *rnic.QP)   // what is left
	each []func(qp *rnic.QP) // called by the handler for each message before that

	came, taken, told atomic.Int64 // messages, those whose work was taken, completions of sends
}

// newLender returns one and the QP that sends it messages.
func newLender(t *testing.T, every time.Duration, work func(qp *rnic.QP), each ...func(qp *rnic.QP)) (a *side, b *lender) {
	t.Helper()
	const depth = 256
	a = newSide(t, rnic.DeviceConfig{}, depth)
	b = &lender{side: newSide(t, rnic.DeviceConfig{}, depth), work: work, each: each}
	lendEvery(b.qp, every)
	for range depth {
		recv(t, b.qp, 1, make([]byte, 16))
	}
	b.cq.SetHandler(b.handle)
	join(t, a, b.side)
	return a, b
}

// lendEvery sets the time between two looks of the clock, before the start.
func lendEvery(qp *rnic.QP, every time.Duration) {
	s := streamOf(qp)
	s.lending.lead.Init(every, s.follow)
}

func (b *lender) handle() {
	var wc [1]rnic.WC
	for b.cq.Poll(wc[:]) > 0 {
		switch {
		case wc[0].Status != rnic.WCSuccess:
		case wc[0].Op != rnic.OpRecv:
			b.told.Add(1)
		default:
			for _, f := range b.each {
				f(b.qp)
			}
			if b.qp.Lend(func() { b.work(b.qp) }) {
				b.taken.Add(1)
			}
			b.came.Add(1)
		}
	}
}

// message sends one, and waits until it has come.
func (b *lender) message(t *testing.T, a *side) {
	t.Helper()
	n := b.came.Load()
	post(t, a.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{{1}}})
	a.want(t, rnic.OpSend, 1, rnic.WCSuccess)
	until(t, func() bool { return b.came.Load() > n })
}

// The receive loop runs what the handler leaves, once for each; what that posts leaves, and the
// completion is told.
func TestLend(t *testing.T) {
	var byLoop, runs atomic.Int64
	a, b := newLender(t, time.Hour, func(qp *rnic.QP) { // the machine may be slow
		if streamOf(qp).lending.lead.Current() != 0 {
			byLoop.Add(1)
		}
		runs.Add(1)
		if err := qp.PostSend(rnic.SendWR{ID: 2, Op: rnic.OpSend, SGL: [][]byte{{2}}}); err != nil {
			t.Error(err)
		}
	})
	const messages = 100
	for i := range messages {
		recv(t, a.qp, 3, make([]byte, 16))
		post(t, a.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{{1}}, Unsignaled: true})
		a.want(t, rnic.OpRecv, 3, rnic.WCSuccess)
		until(t, func() bool { return b.told.Load() == int64(i+1) })
	}
	if n := runs.Load(); n != messages || b.taken.Load() != messages {
		t.Errorf("%d of %d were run, %d taken", n, messages, b.taken.Load())
	}
	if n := byLoop.Load(); n < messages/2 { // the handler may have run on the transmit loop
		t.Errorf("the receive loop has run %d of %d", n, messages)
	}
	b.qp.Close()
	if n := streamOf(b.qp).p.lent.Load(); n != 0 {
		t.Errorf("%d loops are lent", n)
	}
}

// What takes long holds nothing back that comes meanwhile, nor the end of the QP; and the loop is
// not lent for a while after it.
func TestLendForLong(t *testing.T) {
	hold, ended := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	a, b := newLender(t, lead.Tick, func(*rnic.QP) {
		if first.CompareAndSwap(false, true) {
			<-hold
			close(ended)
		}
	})
	b.message(t, a)
	until(t, first.Load)
	for range wait.Passes {
		b.message(t, a)
	}
	if n := b.taken.Load(); n != 1 {
		t.Errorf("the loop was lent %d times, want 1", n)
	}
	b.message(t, a)
	if n := b.taken.Load(); n != 2 {
		t.Errorf("the loop was lent %d times after a while, want 2", n)
	}
	b.qp.Close()
	close(hold)
	<-ended
	until(t, func() bool { return streamOf(b.qp).p.lent.Load() == 0 })
}

// A grouper leaves a function for each message, in simulated time. Each takes its time, posts an
// answer, and notes how many answers have left by then.
type grouper struct {
	*answerer
	mu   sync.Mutex // guards own
	own  int        // functions that were run by another goroutine than the receive loop's
	hold chan struct{}
	over chan struct{}
}

// A function that takes held waits for hold, one that takes heldOver waits for over.
const (
	held     = -1
	heldOver = -2
)

// grouping runs f with one.
func grouping(t *testing.T, f func(g *grouper, msn *uint32)) {
	t.Helper()
	byPipe(t, func(k *piped) {
		g := &grouper{answerer: &answerer{piped: k}, hold: make(chan struct{}), over: make(chan struct{})}
		for range 31 {
			recv(t, k.qp, 1, nil)
		}
		k.cq.SetHandler(g.handle)
		var msn uint32
		f(g, &msn)
	})
}

func (g *grouper) handle() {
	var wc [1]rnic.WC
	for g.cq.Poll(wc[:]) > 0 {
		if wc[0].Op != rnic.OpRecv || wc[0].Status != rnic.WCSuccess {
			continue
		}
		var takes time.Duration
		if len(g.after) > 0 {
			takes, g.after = g.after[0], g.after[1:]
		}
		if !g.qp.Lend(func() { g.answer(takes) }) {
			go g.answer(takes)
		}
	}
}

func (g *grouper) answer(takes time.Duration) {
	under := streamOf(g.qp).lending.lead.Current()
	switch takes {
	case held:
		<-g.hold
	case heldOver:
		<-g.over
	default:
		time.Sleep(takes) // simulated: it works
	}
	post(g.t, g.qp, rnic.SendWR{ID: 2, Op: rnic.OpSend})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = append(g.left, (g.qp.Moved()-g.from)/answerBytes)
	if under == 0 || under != streamOf(g.qp).lending.lead.Current() {
		g.own++
	}
}

// Several functions are run by the loop, one after another, and what they post leaves together;
// that of one alone leaves at once.
func TestLendSeveral(t *testing.T) {
	grouping(t, func(g *grouper, msn *uint32) {
		for _, n := range []int{5, 1, lendMost} {
			want := make([]uint64, n)
			if n == 1 {
				want[0] = 1
			}
			g.batch(msn, n)
			if !slices.Equal(g.left, want) || g.own != 0 {
				t.Errorf("answers that had left after each of %d: %v, want %v; %d not by the loop", n, g.left, want, g.own)
			}
		}
	})
}

// Those that come after one which is slow are not kept waiting by the next, and the loop is not
// lent for a while after that.
func TestLendSeveralOneSlow(t *testing.T) {
	grouping(t, func(g *grouper, msn *uint32) {
		g.after = []time.Duration{0, lendShort, time.Hour, 0}
		began := time.Now()
		g.say(messages(msn, 4))
		for range 3 {
			g.hearULPDU()
		}
		if d := time.Since(began); d >= lead.Tick {
			t.Errorf("the last was run after %v", d)
		}
		synctest.Wait() // they have been noted
		g.mu.Lock()
		if len(g.left) != 3 || g.own != 1 {
			t.Errorf("%d answers, %d functions not by the loop, want 3 and 1", len(g.left), g.own)
		}
		g.mu.Unlock()
		passed := 0
		for streamOf(g.qp).lending.lead.Backoff.Pass() {
			passed++
		}
		if passed != wait.Passes {
			t.Errorf("the loop is lent after %d more, want %d", passed, wait.Passes)
		}
		g.hearULPDU() // after its hour
	})
}

// What has been posted before a function that takes very long leaves, those after it are run, and
// messages that come meanwhile are received; what it posts in the end leaves as well.
func TestLendSeveralOneHeld(t *testing.T) {
	for _, takes := range [][]time.Duration{{0, held, 0, 0}, {held, 0}} {
		grouping(t, func(g *grouper, msn *uint32) {
			g.after = takes
			g.say(messages(msn, len(takes)))
			for range len(takes) - 1 {
				g.hearULPDU()
			}
			g.batch(msn, 2)
			close(g.hold)
			g.hearULPDU()
			synctest.Wait()
			if got, want := len(g.left), 3; got != want { // the two of the batch, and the one that was held
				t.Errorf("%d answers, want %d", got, want)
			}
			if n := streamOf(g.qp).p.lent.Load(); n != 0 {
				t.Errorf("%d loops lent, want 0", n)
			}
		})
	}
}

// Functions after one that takes very long are run where the transmit loop waits, and nothing
// comes.
func TestLendSeveralWithNoRoom(t *testing.T) {
	grouping(t, func(g *grouper, msn *uint32) {
		s := streamOf(g.qp)
		room := make(chan struct{})
		s.link.(*readyLink).c.(*rnictest.Ready).AfterWrite = func() { <-room }
		s.work.HandOver()
		post(t, g.qp, rnic.SendWR{ID: 2, Op: rnic.OpSend})
		s.wakeTx()
		synctest.Wait()
		g.after = []time.Duration{held, 0, 0}
		g.say(messages(msn, 3))
		time.Sleep(time.Second)
		synctest.Wait()
		g.mu.Lock()
		if len(g.left) != 2 {
			t.Errorf("%d of 2 functions have been run", len(g.left))
		}
		g.mu.Unlock()
		close(room)
		close(g.hold)
		for range 4 {
			g.hearULPDU()
		}
	})
}

// What the handler leaves when it is told of what lent functions have sent is run as well.
func TestLendAfterSends(t *testing.T) {
	a, b := newSide(t, rnic.DeviceConfig{}, 64), newSide(t, rnic.DeviceConfig{}, 64)
	lendEvery(b.qp, time.Hour)
	for range 32 {
		recv(t, b.qp, 1, make([]byte, 16))
	}
	var ran, taken atomic.Int64
	b.cq.SetHandler(func() {
		var wc [1]rnic.WC
		for b.cq.Poll(wc[:]) > 0 {
			switch {
			case wc[0].Status != rnic.WCSuccess:
			case wc[0].Op == rnic.OpRecv:
				if !b.qp.Lend(func() {
					if err := b.qp.PostSend(rnic.SendWR{ID: 2, Op: rnic.OpSend, SGL: [][]byte{{2}}}); err != nil {
						t.Error(err)
					}
				}) {
					t.Error("refused")
				}
			default:
				if !b.qp.Lend(func() { ran.Add(1) }) {
					t.Error("refused")
				}
				taken.Add(1)
			}
		}
	})
	join(t, a, b)
	for i := range int64(20) {
		recv(t, a.qp, 3, make([]byte, 16))
		post(t, a.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{{1}}, Unsignaled: true})
		a.want(t, rnic.OpRecv, 3, rnic.WCSuccess)
		until(t, func() bool { return taken.Load() == i+1 })
		until(t, func() bool { return ran.Load() == i+1 })
	}
}

// A loop that callers drive is lent to nobody, and no more than some functions are left at a time,
// which are taken in order.
func TestLendIsRefused(t *testing.T) {
	s := stream{p: &provider{lentMost: 1}}
	var ran []int
	for i := range lendMost {
		if !s.Lend(func() { ran = append(ran, i) }) {
			t.Fatalf("function %d is refused", i)
		}
	}
	if s.Lend(func() {}) {
		t.Error("more functions are left than are meant to be")
	}
	for f := s.lending.take(); f != nil; f = s.lending.take() {
		f()
	}
	if len(ran) != lendMost || !slices.IsSorted(ran) {
		t.Errorf("taken in the order %v", ran)
	}
	s.waiting = func() bool { return false }
	if s.Lend(func() {}) {
		t.Error("lent though callers drive")
	}
	s.waiting = nil
	s.p.lent.Add(1)
	if s.Lend(func() {}) {
		t.Error("more loops are lent than are meant to be")
	}
}

// Work that is left by a handler on another goroutine than the receive loop's is run as well.
func TestSpill(t *testing.T) {
	s := stream{p: &provider{lentMost: 1}}
	ran := make(chan struct{})
	s.Lend(func() { close(ran) })
	s.lending.spill()
	<-ran
	s.lending.spill()
}

// What the last round of the handler leaves is run, too: that round runs where the end of the QP is
// seen to, and the receive loop may have ended.
func TestLendAtTheEnd(t *testing.T) {
	a, b := newSide(t, rnic.DeviceConfig{}, 4), newSide(t, rnic.DeviceConfig{}, 4)
	recv(t, b.qp, 1, make([]byte, 16))
	ran, taken := make(chan struct{}), make(chan bool, 1)
	b.cq.SetHandler(func() {
		var wc [1]rnic.WC
		for b.cq.Poll(wc[:]) > 0 {
			if wc[0].Status == rnic.WCFlushErr {
				<-streamOf(b.qp).eof // the receive loop has ended
				taken <- b.qp.Lend(func() { close(ran) })
			}
		}
	})
	join(t, a, b)
	a.qp.Close()
	if <-taken {
		<-ran
	}
	b.qp.Close()
	if b.qp.Lend(func() {}) {
		t.Error("a function is left that nobody will run")
	}
}

// What comes when the answer has been sent is held up by nobody, however late the function comes
// back from that.
func TestNextCallIsNotHeldUp(t *testing.T) {
	var runs atomic.Int64
	a, b := newLender(t, time.Hour, func(qp *rnic.QP) {
		for began := time.Now(); time.Since(began) < lendShort; {
			runtime.Gosched()
		}
		if err := qp.PostSend(rnic.SendWR{ID: 2, Op: rnic.OpSend, SGL: [][]byte{{2}}}); err != nil {
			t.Error(err)
		}
		if runs.Add(1) == 1 {
			until(t, streamOf(qp).inputWaits) // the next message
		}
	})
	for range 3 {
		recv(t, a.qp, 3, make([]byte, 16))
		post(t, a.qp, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{{1}}, Unsignaled: true})
		a.want(t, rnic.OpRecv, 3, rnic.WCSuccess) // the answer
	}
	until(t, func() bool { return b.came.Load() == 3 })
	if n := b.taken.Load(); n != 3 {
		t.Errorf("the loop was lent %d times, want 3", n)
	}
	until(t, func() bool { return runs.Load() == 3 })
}

// A function that takes some time, and holds up a message meanwhile, has the next ones be run by
// others; one that holds up nothing does not.
func TestLendHoldsUp(t *testing.T) {
	for name, want := range map[string]int64{"nothing": 3, "a message": 1} {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int64
			a, b := newLender(t, time.Hour, func(qp *rnic.QP) {
				if want == 1 && runs.Load() == 0 {
					until(t, streamOf(qp).inputWaits)
				}
				for began := time.Now(); time.Since(began) < lendShort; {
					runtime.Gosched()
				}
				runs.Add(1)
				if err := qp.PostSend(rnic.SendWR{ID: 2, Op: rnic.OpSend, SGL: [][]byte{{2}}}); err != nil {
					t.Error(err)
				}
			})
			for i := range int64(3) {
				recv(t, a.qp, 3, make([]byte, 16))
				post(t, a.qp, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{{1}}, Unsignaled: true})
				until(t, func() bool { return b.came.Load() == i+1 })
				if want > 1 { // what comes before the completion of its Send is told of is held up
					until(t, func() bool { return b.told.Load() == i+1 })
				}
			}
			if n := b.taken.Load(); n != want {
				t.Fatalf("the loop was lent %d times, want %d", n, want)
			}
			until(t, func() bool { return runs.Load() == want })
		})
	}
}

// After a call that it was lent for the receive loop keeps its thread while it waits for the next
// one, and after no other.
func TestLentLoopKeepsItsThread(t *testing.T) {
	for name, lends := range map[string]bool{"lent": true, "not lent": false} {
		t.Run(name, func(t *testing.T) {
			var kept atomic.Int64
			a, b := newLender(t, time.Hour, func(*rnic.QP) {}, func(qp *rnic.QP) {
				if streamOf(qp).rx.blockThread { // the receive loop's, which runs this
					kept.Add(1)
				}
			})
			if !lends {
				streamOf(b.qp).lending.lead.Backoff.Start() // for more messages than there will be
			}
			const messages = 5
			for i := range int64(messages) {
				b.message(t, a)
				if lends {
					until(t, func() bool { return streamOf(b.qp).lending.lead.Current() == 0 && b.taken.Load() == i+1 })
				}
			}
			b.qp.Close()
			if n := kept.Load(); lends && n < messages/2 || !lends && n != 0 {
				t.Errorf("%d of %d messages were waited for like that", n, messages)
			}
		})
	}
}
