// A receive loop whose goroutine is replaced in the middle of a batch.

package iwarp

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A busyAnswerer answers each message of a batch. For some messages its handler waits until hold is
// closed, and another goroutine continues the receive loop (follow).
type busyAnswerer struct {
	*answerer
	waits []bool // whether the handler waits for the next messages; empty: it does not
	hold  chan struct{}
}

func (b *busyAnswerer) handle() (leads bool) {
	var wc [1]rnic.WC
	for b.cq.Poll(wc[:]) > 0 {
		if wc[0].Op != rnic.OpRecv || wc[0].Status != rnic.WCSuccess {
			continue
		}
		recv(b.t, b.qp, 1, nil)
		if len(b.waits) > 0 {
			waits := b.waits[0]
			b.waits = b.waits[1:]
			if waits && b.cq.CanFollow() {
				go b.cq.Follow()
				<-b.hold
				post(b.t, b.qp, rnic.SendWR{ID: 3, Op: rnic.OpSend})
				return false
			}
		}
		post(b.t, b.qp, rnic.SendWR{ID: 2, Op: rnic.OpSend})
		b.left = append(b.left, (b.qp.Moved()-b.from)/answerBytes)
	}
	return true
}

// TestFollowerEndsTheBatch: a batch's answers leave together although the handler waits while it
// handles one message and another goroutine has become the receive loop. Later messages are
// answered meanwhile, and the delayed one last.
func TestFollowerEndsTheBatch(t *testing.T) {
	for _, waits := range [][]bool{{false, true, false}, {true, false, false}, {false, false, true}, {false, true, true, false}} {
		byPipe(t, func(k *piped) {
			b := &busyAnswerer{answerer: &answerer{piped: k}, hold: make(chan struct{})}
			for range 15 {
				recv(t, k.qp, 1, nil)
			}
			k.cq.SetLeader(b.handle)
			var msn uint32
			synctest.Wait()
			held := 0
			for _, w := range waits {
				if w {
					held++
				}
			}
			b.from, b.waits = k.qp.Moved(), slices.Clone(waits)
			k.say(messages(&msn, len(waits)))
			for range len(waits) - held {
				k.hearULPDU()
			}
			synctest.Wait()
			if want := make([]uint64, len(waits)-held); !slices.Equal(b.left, want) {
				t.Errorf("waits %v: answers that had left after each: %v, want %v", waits, b.left, want)
			}
			b.batch(&msn, 2)
			if want := []uint64{0, 0}; !slices.Equal(b.left, want) {
				t.Errorf("waits %v: of the next batch: %v, want %v", waits, b.left, want)
			}
			if s := streamOf(k.qp); !s.rx.blockThread {
				t.Error("the follower has answered all, and does not keep its thread")
			}
			close(b.hold)
			for range held {
				k.hearULPDU()
			}
			synctest.Wait()
		})
	}
}

// TestFormerLoopLeavesBatchesAlone: the former receive loop finishes its message in the middle of a
// later batch, whose answers still leave together.
func TestFormerLoopLeavesBatchesAlone(t *testing.T) {
	byPipe(t, func(k *piped) {
		b := &busyAnswerer{answerer: &answerer{piped: k}, hold: make(chan struct{}), waits: []bool{true}}
		for range 7 {
			recv(t, k.qp, 1, nil)
		}
		busy := b.handle
		var later bool
		k.cq.SetLeader(func() bool {
			if later { // the batch is corked
				later = false
				close(b.hold)
				time.Sleep(time.Second) // the former loop ends
			}
			return busy()
		})
		var msn uint32
		k.say(messages(&msn, 1))
		synctest.Wait()
		b.from, later = k.qp.Moved(), true
		k.say(messages(&msn, 2))
		for range 3 {
			k.hearULPDU()
		}
		synctest.Wait()
		if want := []uint64{0, 0}; !slices.Equal(b.left, want) {
			t.Errorf("answers that had left after each: %v, want %v", b.left, want)
		}
	})
}

// TestUncork: after Uncork, collected answers leave before another goroutine follows, and so do
// later ones.
func TestUncork(t *testing.T) {
	byPipe(t, func(k *piped) {
		for range 3 {
			recv(t, k.qp, 1, nil)
		}
		hold, n := make(chan struct{}), 0
		from := k.qp.Moved()
		left := func() uint64 { return (k.qp.Moved() - from) / answerBytes }
		k.cq.SetLeader(func() bool {
			var wc [1]rnic.WC
			for k.cq.Poll(wc[:]) > 0 {
				if wc[0].Op != rnic.OpRecv || wc[0].Status != rnic.WCSuccess {
					continue
				}
				if n++; n < 3 {
					post(t, k.qp, rnic.SendWR{ID: 2, Op: rnic.OpSend})
					continue
				}
				if left() != 0 {
					t.Error("answers have left before they are uncorked")
				}
				k.qp.Uncork()
				if got := left(); got != 2 {
					t.Errorf("%d answers have left, want 2", got)
				}
				if post(t, k.qp, rnic.SendWR{ID: 2, Op: rnic.OpSend}); left() != 3 {
					t.Error("the answer after that has not left at once")
				}
				<-hold
				go k.cq.Follow()
				return false
			}
			return true
		})
		var msn uint32
		k.say(messages(&msn, 3))
		for range 3 {
			k.hearULPDU()
		}
		close(hold)
		synctest.Wait()
	})
}

// TestEndWhileFollowed: the QP ends although the handler still waits while it handles a message.
func TestEndWhileFollowed(t *testing.T) {
	byPipe(t, func(k *piped) {
		b := &busyAnswerer{answerer: &answerer{piped: k}, hold: make(chan struct{}), waits: []bool{true}}
		k.cq.SetLeader(func() bool {
			var wc [1]rnic.WC
			for k.cq.Poll(wc[:]) > 0 {
				if wc[0].Op == rnic.OpRecv && wc[0].Status == rnic.WCSuccess {
					go k.cq.Follow()
					<-b.hold
					return false
				}
			}
			return true
		})
		var msn uint32
		k.say(messages(&msn, 1))
		synctest.Wait()
		go k.c.Close()
		began := time.Now()
		k.qp.Close()
		if d := time.Since(began); d > 0 {
			t.Errorf("the end has waited for %v", d)
		}
		close(b.hold)
	})
}

// TestInputWaits: InputWaits reports unread input, and not input that was read.
func TestInputWaits(t *testing.T) {
	a, b := newSide(t, rnic.DeviceConfig{}, 4), newSide(t, rnic.DeviceConfig{}, 4)
	for range 2 {
		recv(t, b.qp, 1, make([]byte, 16))
	}
	entered, hold := make(chan struct{}), make(chan struct{})
	first := true
	b.cq.SetHandler(func() {
		if first {
			first = false
			entered <- struct{}{}
			<-hold
		}
	})
	join(t, a, b)
	post(t, a.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{{1}}})
	<-entered
	if b.qp.InputWaits() {
		t.Error("input waits that has been read")
	}
	post(t, a.qp, rnic.SendWR{ID: 1, Op: rnic.OpSend, SGL: [][]byte{{1}}})
	until(t, b.qp.InputWaits)
	close(hold)
}
