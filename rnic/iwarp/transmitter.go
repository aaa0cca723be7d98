// The transmitter: posts, the transmit loop, and the outbound core joined to the link. The holder
// of the turn runs it.

package iwarp

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
)

// A transmitter hands to TCP the FPDUs that the core makes of posted work and the peer's Reads.
// Only the holder of the core's Turn runs it; mu is held while a batch is built or handed over,
// never while waiting for room, so that others can take memory out of a batch (detach) or end the
// stream (stop).
type transmitter struct {
	// set once
	s    *stream
	link link
	tcp  *tcpLink // the link, if it is a tcpLink

	mu  sync.Mutex
	out core.Outbound // guarded by mu

	handed atomic.Uint64 // bytes of the stream taken by TCP

	callYields tally.Counter // yields to small calls
}

// PostSend queues work, and sends it unless another goroutine will.
func (s *stream) PostSend(wrs []rnic.Posted) error {
	if n := len(wrs); n > 0 && wrs[n-1].Op <= rnic.OpSendSEInvalidate {
		s.sends.Add(1)
	}
	mine, err := s.work.Post(wrs)
	budget := inlineBytes
	if !mine && s.early.due() {
		mine, budget = s.flushEarly(), batchBytes
	}
	if mine {
		if budget == inlineBytes && wrs[len(wrs)-1].Hint == rnic.HintCoalesce {
			runtime.Gosched() // others post while this goroutine holds the turn, and it sends their work too
		}
		s.tx.runInline(budget)
	}
	return err
}

// flushEarly lets posted work leave before the batch is done, and reports whether the
// caller is to transmit it.
func (s *stream) flushEarly() (mine bool) {
	if mine = s.work.ClaimCorked(); mine {
		s.early.tally.Win()
	} else {
		s.early.tally.Lose()
	}
	return mine
}

// sendCollected sends the work posted since Cork, and uncorks.
func (s *stream) sendCollected() {
	if s.work.Uncork() {
		// Only the transmit loop writes to a link that may block: the receive loop MUST NOT wait
		// for room, or two peers with full windows would wait for each other.
		if s.link.inline() {
			s.tx.run(batchBytes)
		} else {
			s.tx.handOver()
		}
	}
}

// Uncork implements rnic.Scheduler.
func (s *stream) Uncork() {
	s.early.end()
	s.sendCollected()
}

// Release returns once no batch points into the memory that mr had.
func (s *stream) Release(mr *rnic.MR) { s.tx.detach(mr) }

// txLoop transmits work that posters could not, and ends the stream.
func (s *stream) txLoop() {
	defer s.loops.Done()
	for range s.txWake {
		// This check comes first: after an error only teardown transmits.
		if s.q.Failed() {
			s.teardown()
			return
		}
		if s.work.TurnOfLoop() {
			s.tx.runLoop()
		}
		if s.takeFIN() {
			s.link.closeWrite()
		}
		s.q.Notify()
	}
}

// FlushDeferred implements rnic.Scheduler.
func (s *stream) FlushDeferred() { s.wakeTx() }

func (s *stream) wakeTx() {
	select {
	case s.txWake <- struct{}{}:
	default:
	}
}

// An outcome is the result of one step of a transmitter.
type outcome uint8

const (
	stepped outcome = iota // TCP has taken some bytes; there might be more
	full                   // TCP takes no more bytes now
	idle                   // all available bytes have been transmitted
)

// runInline transmits on a poster's goroutine. It never waits: it leaves bytes beyond the socket's
// room or the budget to the transmit loop.
func (t *transmitter) runInline(budget int) {
	if t.link.inline() {
		t.run(budget)
	} else {
		t.handOver()
	}
	if t.s.q.OwesNotify() {
		t.s.wakeTx()
	}
}

// run transmits until there is nothing to do, or budget bytes are with TCP or TCP takes no more:
// then the transmit loop continues. The caller has the turn; run gives the turn back or hands it
// over.
func (t *transmitter) run(budget int) {
	for {
		n, o, err := t.step()
		budget -= n
		switch {
		case err != nil && !errors.Is(err, rnic.ErrConnLost):
			t.failed(err)
			return
		// sendFailed, which waits for the peer's reason in the input, is left to the transmit loop:
		// a poster must not wait, and the receive loop would wait for itself.
		case err != nil || o == full: // the transmit loop will see a lost connection too
			t.handOver()
			return
		// Rest checks the queue and gives the turn back in one step, under the queue's lock: so
		// Rest sees each earlier work request, and a later poster finds the turn free.
		case o == idle && t.s.work.Rest():
			return
		// The budget is checked last, because a needless wake-up of the loop costs as much as many
		// small messages.
		case budget <= 0:
			t.handOver()
			return
		}
	}
}

// runLoop is run for the transmit loop: it waits for room in the socket.
func (t *transmitter) runLoop() {
	for {
		_, o, err := t.step()
		if err == nil && o == full {
			// Completions are reported now: the peer can keep the socket full for any time.
			t.s.q.NotifySends()
			err = t.link.waitWritable()
		}
		if err != nil {
			t.failed(err)
			return
		}
		t.s.q.NotifySends()
		// GiveUp, in failed, comes without Rest: after an error teardown flushes the queue.
		if o == idle && t.s.work.Rest() {
			return
		}
	}
}

// failed ends the stream and the turn.
func (t *transmitter) failed(err error) {
	t.s.sendFailed(err)
	t.s.work.GiveUp()
}

// yieldToCalls yields if a small call has come since a large transfer of the Device last yielded:
// the receiver of the reply may wait for this processor, and so may the next call, which is read
// before the next batch of the transfer is made and sent. One yield is enough for both; a thread
// that yields more often gets the processor back later, and may have to reply itself.
func (t *transmitter) yieldToCalls() {
	p := t.s.p
	if n := p.inputs.Small.Load(); n != p.yieldedFor.Load() {
		p.yieldedFor.Store(n)
		t.callYields.Win()
		wait.Yield()
	}
}

// step makes a batch if there is none, and hands over as much of it as TCP takes.
func (t *transmitter) step() (n int, o outcome, err error) {
	if t.tcp != nil && t.tcp.wait.large.Load() > 0 {
		t.yieldToCalls()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.out.NeedsMSS() {
		t.out.SetMSS(t.link.mss())
	}
	if err := t.out.Fill(); err != nil {
		return 0, idle, err
	}
	pieces, how := t.out.Pending()
	if len(pieces) == 0 {
		return 0, idle, nil
	}
	n, full, err := t.link.writev(pieces, how)
	fits := t.out.Sent(n)
	t.handed.Store(t.out.Position())
	switch {
	// The bytes have left all the same; only their completion has found no room (RFC 5040 §8.1.1
	// [R5040-214]).
	case !fits:
		return n, stepped, rnic.ErrCQOverrun
	case err != nil:
		return n, stepped, fmt.Errorf("%w: %w", rnic.ErrConnLost, err)
	}
	return n, t.outcome(full), nil
}

// outcome returns the result of a step. noRoom: TCP takes no more bytes now. The caller holds mu.
func (t *transmitter) outcome(noRoom bool) outcome {
	switch {
	case noRoom:
		return full
	case t.out.Idle(): // this saves another step, which would find nothing
		return idle
	}
	return stepped
}

// handOver passes the turn to the transmit loop.
func (t *transmitter) handOver() {
	t.s.work.HandOver()
	t.s.wakeTx()
}

// detach makes the batch independent of the memory of mr.
func (t *transmitter) detach(mr *rnic.MR) {
	t.mu.Lock()
	t.out.Detach(mr)
	t.mu.Unlock()
}

// stop ends transmission permanently. It returns the unsent rest of the current FPDU.
func (t *transmitter) stop() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.Stop()
}

// barrier returns when the bytes taken by TCP are noted: the peer might have answered them, and
// closed, before the call that handed them over returned.
func (t *transmitter) barrier() {
	t.mu.Lock()
	defer t.mu.Unlock()
}
