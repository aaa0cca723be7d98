// The transmitter: whoever has work to send runs it, one at a time.

package rnic

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// Bounds of how long a poster transmits before it hands over to the transmit loop.
const (
	inlineOctets = 1 << 20
	mssEvery     = 64 // batches between two looks at the segment size
)

// A transmitter turns posted work and the peer's Reads into FPDUs and hands
// them to TCP. The right to run it is sendQueue.active; mu is held while a
// batch is built or handed over, never while waiting for room, so that others
// can take memory out of a batch (letGo) or end the stream (stop).
type transmitter struct {
	// set once
	qp      *QP
	link    link
	crc     bool
	markers *mpa.MarkerSender // not nil: the peer asked for markers

	mu        sync.Mutex
	b         batch // guarded by mu, as is all that follows
	cur       message
	sendMSN   uint32 // of the next message on queue 0
	readMSN   uint32 // and queue 1
	atomicMSN uint32 // and queue 3
	mulpdu    int
	mss       int
	looked    int              // batches since mulpdu was last judged
	before    mpa.MarkerSender // markers as they were before the batch
	made      markedFPDU
	fault     error // what the batch in hand ran into; told when it has left
	stopped   bool

	handed atomic.Uint64 // bytes of the stream that TCP has taken

	// mulpdu for posters to read; 0 where they have no CRCs to reckon
	mulpduNow atomic.Int32
}

func (t *transmitter) init(qp *QP) {
	t.qp = qp
	t.sendMSN, t.readMSN, t.atomicMSN = 1, 1, 1 // R5041-046
	t.b.init()
}

// runInline transmits on a poster's goroutine: never waits, and hands over what
// the socket has no room for.
func (t *transmitter) runInline() {
	if t.link.inline() {
		t.run(inlineOctets)
	} else {
		t.handOver()
	}
	if t.qp.sendCQ.owes() {
		t.qp.wakeTx()
	}
}

// run transmits until there is nothing to do, or budget octets are with TCP or
// TCP takes no more: then the transmit loop goes on. budget < 0: this is the transmit loop.
func (t *transmitter) run(budget int) {
	loop := budget < 0
	for {
		n, err := t.step()
		switch {
		case err == errIdle:
			if t.rest() {
				return
			}
		case !loop && (err == errAgain || errors.Is(err, ErrConnLost)): // the transmit loop will see it too
			t.handOver()
			return
		case err == errAgain:
			// What has completed is told now: the socket can stay full for as long as the peer likes.
			t.qp.sendCQ.notify()
			err = t.link.waitWritable()
		}
		if err != nil && err != errIdle {
			t.qp.sendFailed(err)
			t.giveUp()
			return
		}
		if budget -= n; !loop && budget <= 0 {
			t.handOver()
			return
		}
		if loop {
			t.qp.sendCQ.notify()
		}
	}
}

// errIdle says that there was nothing to transmit.
var errIdle = errors.New("rnic: nothing to transmit")

// step makes a batch if there is none, and hands over what TCP takes of it.
func (t *transmitter) step() (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return 0, ErrClosed
	}
	if t.b.empty() {
		if err := t.build(); err != nil {
			return 0, err
		}
		switch {
		case t.b.empty() && t.fault != nil:
			return 0, t.fault
		case t.b.empty():
			return 0, errIdle
		}
	}
	n, err := t.link.writev(&t.b)
	if n > 0 {
		t.b.advance(n)
		t.handed.Store(t.b.pos)
		sq := &t.qp.sq
		sq.mu.Lock()
		fits := sq.taken(t.qp, t.b.pos)
		sq.mu.Unlock()
		if !fits {
			return n, ErrCQOverrun
		}
	}
	if err != nil && err != errAgain {
		err = fmt.Errorf("%w: %w", ErrConnLost, err)
	}
	return n, err
}

// rest gives the right to transmit back, unless more work has come: true if it
// is given back. A local invalidation, which sends nothing, is done here.
func (t *transmitter) rest() bool {
	sq := &t.qp.sq
	sq.mu.Lock()
	for {
		if sq.corked || !sq.ready() {
			sq.active, sq.onLoop = false, false
			sq.mu.Unlock()
			return true
		}
		if sq.irqNext != sq.irqTail || sq.at(sq.next).Op != OpLocalInvalidate {
			sq.mu.Unlock()
			return false
		}
		e := sq.at(sq.next)
		mr := e.MR
		sq.mu.Unlock()
		mr.Invalidate()
		sq.mu.Lock()
		if !sq.open && sq.next == sq.tail { // flushed meanwhile
			continue
		}
		sq.next++
		e.done = true
		sq.retire(t.qp)
	}
}

// giveUp drops the right to transmit when the stream has ended.
func (t *transmitter) giveUp() {
	sq := &t.qp.sq
	sq.mu.Lock()
	sq.active, sq.onLoop = false, false
	sq.mu.Unlock()
}

// handOver passes the right to transmit to the transmit loop.
func (t *transmitter) handOver() {
	sq := &t.qp.sq
	sq.mu.Lock()
	sq.onLoop = true
	sq.mu.Unlock()
	t.qp.wakeTx()
}

// letGo makes the batch independent of the memory of mr.
func (t *transmitter) letGo(mr *MR) {
	t.mu.Lock()
	t.b.letGo(mr)
	t.mu.Unlock()
}

// stop ends transmission for good. It returns what is left of the FPDU that the
// stream is inside of: only behind it can a Terminate go.
func (t *transmitter) stop() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.cur = message{}
	if t.markers != nil && !t.b.empty() && t.b.pos == t.b.began {
		*t.markers = t.before
	}
	return t.b.cut()
}

// start sets the transmitter up for a connection.
func (t *transmitter) start(l link, s *session) {
	t.link, t.crc = l, s.crc
	t.b.record = s.whole && !s.sendMarks
	if s.sendMarks {
		t.markers = new(mpa.MarkerSender)
	}
}
