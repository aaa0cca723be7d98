// The receiver: the receive loop, and the inbound core joined to the link. How much is read, and
// into which memory.

package iwarp

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// A receiver reads the stream into a buffer, or payload straight into its destination, and passes
// the input to the core. Only the owner of the receive right runs it. mu is held while bytes are
// placed, so that stop can end placement permanently.
type receiver struct {
	// owned with the receive right
	buf         []byte
	r, w        int      // buf[r:w] has not been parsed
	small       *rxSmall // not nil: buf is this buffer
	wide        *rxBuf   // not nil: buf is this buffer; both nil: buf is nil, all input used
	busy        bool     // a read filled the small buffer: the next input gets a large one
	head        int      // bytes placed directly by the last read
	woken       bool     // a goroutine in CQ.Wait was woken, and not yet yielded to
	came        uint32   // peer's messages received before the current batch
	sends       uint32   // posts ending with a Send before the current batch
	err         error    // the end of the input
	blockThread bool     // the next wait may block the thread; see rxwait.Blocker

	mu sync.Mutex
	in core.Inbound // guarded by mu where its methods say so; else owned with the receive right
}

type (
	rxSmall [rxBufMin]byte
	rxBuf   [rxBufMax]byte
)

var (
	rxSmalls = sync.Pool{New: func() any { return new(rxSmall) }}
	rxBufs   = sync.Pool{New: func() any { return new(rxBuf) }}
)

// rxLoop reads, places and completes until the stream ends, then discards.
func (s *stream) rxLoop() {
	if s.digest(never) { // bytes that came with the start-up frames
		s.receive()
	}
}

// receive runs the receive loop after the start-up bytes, or after follow, until the input ends or
// another goroutine is the loop.
func (s *stream) receive() {
	for {
		err := s.rx.fill(s.link)
		s.rx.came, s.rx.sends = s.rx.in.Messages(), s.sends.Load()
		// wanted is read before the batch. A caller that first wants the right during the batch
		// waits for a later reply, so the loop would have to reclaim the right at once.
		offers := err == nil && s.right.wanted()
		// Before an offer handled does not yield: a woken caller takes the right and transmits by
		// itself.
		if err == nil && !s.digest(func() bool { return offers }) {
			return
		}
		s.rx.blockThread = s.answered()
		if offers {
			s.offerRight()
		}
		if err != nil {
			s.inputEnded(err)
			s.rx.quit()
			s.q.LeaveDecisions(s)
			close(s.eof)
			s.loops.Done()
			return
		}
	}
}

// answered reports whether the stream has sent as many answers as it received messages since the
// current batch began. If so, no other goroutine works on this peer's messages, and none needs the
// processor of a blocked thread.
func (s *stream) answered() bool {
	n := s.rx.in.Messages() - s.rx.came
	return s.waiting == nil && n > 0 && s.sends.Load()-s.rx.sends >= n
}

// follow continues the receive loop on another goroutine, after a batch's handlers. The goroutine
// that read the batch is no longer the loop, because its handler may wait.
func (s *stream) follow() {
	s.handled(true, never)
	s.rx.blockThread = s.answered()
	s.receive()
}

func never() bool { return false }

// digest passes the input to the core and ends the batch. content reports whether the receiving
// goroutine has all it waits for. leads is false if another goroutine is the receive loop now
// (follow).
func (s *stream) digest(content func() bool) (leads bool) {
	// After an error the loop continues: it reads and discards input until the socket ends, so that
	// closing it does not reset it under our Terminate. fail may be called again; the first counts.
	bunch := s.q.BeginBatch()
	err := s.rx.consume()
	if bunch && s.q.EndBatch() {
		s.rx.woken = true
	}
	if err != nil {
		s.fail(err)
	}
	return s.afterBatch(content)
}

// afterBatch reports the completions of a batch of FPDUs to the ULP. Then it sends the work posted
// meanwhile by the ULP, and responses to the peer's Reads, in one go. When the handler posted
// nothing but woke others, they get the processor first, and their posts leave together: with 32
// callers this saves a third of the time.
func (s *stream) afterBatch(content func() bool) (leads bool) {
	s.work.Cork()
	// The handler runs with no lock held, and may post, close or invalidate. Its posts stay queued
	// until Uncork, so that one writev takes them and the responses to the peer's Reads. A long
	// batch takes two writev calls (earlyflush.go).
	s.early.begin()
	follow := s.goOn
	if s.waiting != nil { // a caller may run this, and cannot pass the receive side on
		follow = nil
	}
	ran, leads := s.q.Lead(follow)
	if leads {
		s.handled(ran, content)
	}
	return leads
}

// handled is the second half of afterBatch, after the handlers.
func (s *stream) handled(ran bool, content func() bool) {
	s.early.end()
	if ran && !content() && s.work.YieldCorked() {
		runtime.Gosched() // others post meanwhile
	}
	s.sendCollected()
	s.q.NotifySends()
}

// inputEnded finds out how the inbound bytes ended.
func (s *stream) inputEnded(err error) {
	// A FIN between FPDUs is an orderly end if nothing is outstanding. The peer may have answered
	// bytes that the transmitter has just handed to TCP, so the transmitter must first record those
	// bytes.
	if err == io.EOF {
		s.tx.barrier()
		if s.work.Outstanding() || s.rx.inMessage() {
			err = errPeerLeft
		}
	}
	s.fail(err)
}

// InputWaits implements rnic.Scheduler.
func (s *stream) InputWaits() bool {
	l, ok := s.link.(*tcpLink)
	return !ok || l.waits()
}

// start begins a stream with the bytes received after the peer's start-up frame: fewer than the
// longest frame has.
func (r *receiver) start(m core.Modes, early []byte) {
	r.in.Start(m)
	if len(early) > 0 {
		r.takeSmall()
		r.w = copy(r.buf, early)
	}
}

// takeSmall gives the stream a small buffer; the stream has no buffer.
func (r *receiver) takeSmall() {
	r.small = rxSmalls.Get().(*rxSmall)
	r.buf = r.small[:]
}

// consume passes every whole FPDU of the buffer to the core.
func (r *receiver) consume() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := r.in.Consume(r.buf[r.r:r.w])
	r.r += n
	if r.in.InPlacement() && r.r == r.w {
		r.r, r.w = 0, 0 // bytes after the payload are read to the front
	}
	if r.in.Stopped() { // after the end, input is discarded
		r.r, r.w = 0, 0
		r.in.Discard()
	}
	return err
}

// fill reads once. io.EOF comes only on an FPDU boundary. An error other than an interruption
// stays: each later holder of the receive right gets it.
func (r *receiver) fill(l link) error {
	if r.err == nil {
		r.err = r.read(l)
	}
	err := r.err
	if errors.Is(err, os.ErrDeadlineExceeded) { // the read was interrupted: the input has not ended
		r.err = nil
	}
	return err
}

// read reads once, for fill.
func (r *receiver) read(l link) error {
	r.head = 0
	n, err := l.read(r)
	// The read filled the placement first, then the buffer.
	r.w += n - r.head
	if err == nil {
		r.busy = r.busy || r.w == len(r.buf)
		return nil
	}
	if err == io.EOF && r.r == r.w && !r.in.InPlacement() {
		// MPA has no message for the end of a stream: TCP's FIN ends it, in an orderly way only
		// between FPDUs.
		return io.EOF
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // inside an FPDU (RFC 5044 §8 code 1)
	}
	return fmt.Errorf("%w: %w", rnic.ErrConnLost, err)
}

// aim returns the memory for the next read: first head is filled, then rest. Between aim and
// release the memory is borrowed, so head stays valid; the read must not wait meanwhile. ok is
// false when no bytes are wanted.
func (r *receiver) aim() (head, rest []byte, ok bool) {
	if r.buf == nil {
		r.takeSmall()
	}
	if r.in.Direct() > 0 {
		r.mu.Lock()
		if head, ok = r.in.Borrow(); !ok {
			r.mu.Unlock()
		}
		return head, r.buf[:tailMax], ok
	}
	r.makeRoom()
	rest = r.buf[r.w:]
	if n := r.in.Limit(r.buf[r.r:r.w], tailMax); n > 0 {
		rest = rest[:min(len(rest), n)]
	}
	return nil, rest, true
}

// release ends the loan from aim: n bytes have been read. idle: there was no input, and the link
// will wait for input.
func (r *receiver) release(n int, idle bool) {
	if r.in.Borrowed() {
		r.head = r.in.Return(n)
		r.mu.Unlock()
	}
	if idle && r.r == r.w {
		r.giveBack()
	}
	// Yield the processor to the woken goroutine: the next input follows from its next post.
	if idle && r.woken {
		r.woken = false
		runtime.Gosched()
	}
}

// blocksThread reports whether the next wait may block the thread.
func (r *receiver) blocksThread() bool { return r.blockThread }

// makeRoom moves a begun FPDU to the front when the buffer's end could cut it off, and takes a
// large buffer when a read has filled the small one.
func (r *receiver) makeRoom() {
	switch {
	case r.busy && r.wide == nil:
		r.wide = rxBufs.Get().(*rxBuf)
		r.w = copy(r.wide[:], r.buf[r.r:r.w])
		r.buf, r.r = r.wide[:], 0
		rxSmalls.Put(r.small)
		r.small = nil
	case r.r == r.w:
		r.r, r.w = 0, 0
	case len(r.buf)-r.r < mpa.MaxFPDU:
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
}

// giveBack returns the buffer, which is empty, to its pool.
func (r *receiver) giveBack() {
	if r.wide != nil {
		rxBufs.Put(r.wide)
	}
	if r.small != nil {
		rxSmalls.Put(r.small)
	}
	r.small, r.wide, r.buf = nil, nil, nil
	r.r, r.w = 0, 0
}

// stop ends placement: after stop no byte is placed any more.
func (r *receiver) stop() {
	r.mu.Lock()
	r.in.Stop()
	r.mu.Unlock()
}

// quit returns the receiver's buffer, and the buffer of an unfinished message, when the stream has
// ended.
func (r *receiver) quit() {
	r.giveBack()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.in.Release()
}

// inMessage reports whether a Send has been received only in part.
func (r *receiver) inMessage() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.in.InMessage()
}
