// The receiver: the inbound core joined to the link. How much is read, and into which memory.

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
	head        int      // bytes that the last read placed directly
	woken       bool     // a goroutine in CQ.Wait was woken, and not yet yielded to
	came        uint32   // peer's messages received before the current batch
	sends       uint32   // posts that ended with a Send before the current batch
	err         error    // the error that has ended the input
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
	// The woken goroutine needs this processor: its next post is the cause of the next input.
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
