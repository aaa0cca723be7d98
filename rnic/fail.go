// How a QP ends: the first error, the Terminate, the flush, and the close.

package rnic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// lingerTime bounds how long a Terminate or FIN is given to get through, input
// being discarded meanwhile: closing a socket that has unread input resets it,
// and the peer might lose the Terminate (R5040-183).
const lingerTime = time.Second

var (
	errNoCQ     = errors.New("rnic: a QP needs a send CQ and a receive CQ")
	errPeerLeft = fmt.Errorf("%w: the peer closed it with work outstanding", ErrConnLost)
)

// fail is the one door to the end of a connected QP: it latches the first error
// and has the transmit loop do the rest. It never blocks.
func (qp *QP) fail(err error) { qp.end(err, false) }

func (qp *QP) end(err error, quick bool) {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if quick && qp.link != nil && qp.last == nil {
		qp.quick = true
		qp.link.conn().SetDeadline(past)
	}
	if qp.failed {
		return
	}
	qp.failed = true
	var f *streamFault
	switch {
	case errors.Is(err, ErrCQOverrun): // R5040-188
		qp.err, qp.last = err, &streamFault{err: err, term: term.Terminate{Code: term.RDMAPLocal}}
		qp.becomeTerminate()
	case errors.As(err, &f):
		qp.err, qp.last = f.err, f
		qp.becomeTerminate()
	case err == io.EOF && qp.state == StateClosing: // both sides agree
		qp.becomeError()
	default:
		qp.err = err
		qp.becomeError()
	}
	if qp.link == nil { // never connected
		return
	}
	qp.link.conn().SetWriteDeadline(past) // a parked transmitter wakes
	qp.wakeTx()
}

func (qp *QP) hasFailed() bool {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.failed
}

// sendFailed is an error on the transmit loop. When the peer has already said why
// it ends the stream, that is on its way in and is the better reason.
func (qp *QP) sendFailed(err error) {
	if errors.Is(err, ErrConnLost) && !qp.hasFailed() {
		select {
		case <-qp.eof:
		case <-time.After(50 * time.Millisecond):
		}
	}
	qp.fail(err)
}

// teardown runs on the transmit loop, once: nothing is placed or sent any more,
// all work comes home, the peer is told, the socket is closed.
func (qp *QP) teardown() {
	rest := qp.tx.stop()
	qp.rx.stop()
	qp.sq.flush(qp)
	qp.rq.flush(qp)
	qp.sendCQ.notify()
	qp.recvCQ.notify()
	qp.pd.detach(qp)
	close(qp.done)

	qp.mu.Lock()
	last, quick := qp.last, qp.quick
	conn := qp.link.conn()
	if !quick {
		conn.SetDeadline(time.Now().Add(lingerTime))
	}
	qp.mu.Unlock()
	if !quick {
		qp.farewell(rest, last)
		<-qp.eof
	}
	conn.Close()
	qp.mu.Lock()
	qp.becomeError()
	qp.mu.Unlock()
}

// farewell sends the Terminate, if there is one to send, then FIN. A responder
// that has had no valid FPDU may not send one (RFC 5044 §7.1.2 rule 4).
func (qp *QP) farewell(rest []byte, last *streamFault) {
	qp.sq.mu.Lock()
	gated := qp.sq.gated
	qp.sq.mu.Unlock()
	if last != nil && !gated {
		qp.link.write(qp.tx.terminate(rest, last))
	}
	qp.link.closeWrite()
}

// barrier returns when what TCP has taken has been noted: the peer may have answered it,
// and closed, before the call that handed it over returned.
func (t *transmitter) barrier() {
	t.mu.Lock()
	defer t.mu.Unlock()
}

// terminate appends the last FPDU of the stream to what is left of the one before.
func (t *transmitter) terminate(rest []byte, f *streamFault) []byte {
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpTerminate), QN: ddp.QNTerminate, MSN: 1}
	ulpdu := f.term.Append(h.Append(nil))
	if t.markers != nil {
		return t.markers.Append(rest, t.crc, ulpdu)
	}
	return mpa.AppendFPDU(rest, t.crc, ulpdu)
}

// Disconnect ends the connection in good order: no more posts are taken,
// accepted work is drained, then FIN, then the peer's FIN is awaited. When ctx
// ends first the connection is closed at once and ctx's error is returned. It must
// not be called from a CQ handler.
func (qp *QP) Disconnect(ctx context.Context) error {
	qp.mu.Lock()
	if !qp.becomeClosing() {
		qp.mu.Unlock()
		return ErrState
	}
	qp.mu.Unlock()
	drained := qp.sq.close()
	select {
	case <-drained:
		qp.finish()
	case <-qp.done:
		return qp.Err()
	case <-ctx.Done():
	}
	select {
	case <-qp.eof:
		<-qp.done
		return qp.Err()
	case <-ctx.Done():
		qp.end(ctx.Err(), true)
		<-qp.done
		return ctx.Err()
	}
}

// finish has the transmit loop send FIN: nobody else may wait for the peer.
func (qp *QP) finish() {
	qp.mu.Lock()
	qp.finDue = true
	qp.mu.Unlock()
	qp.wakeTx()
}

// takeFIN says, once, that FIN is due.
func (qp *QP) takeFIN() bool {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	due := qp.finDue
	qp.finDue = false
	return due
}

// close takes no more posts; the channel is closed when all work is done.
func (sq *sendQueue) close() <-chan struct{} {
	sq.mu.Lock()
	defer sq.mu.Unlock()
	c := make(chan struct{})
	sq.open = false
	if sq.head == sq.tail && sq.irqHead == sq.irqTail {
		close(c)
	} else {
		sq.drained = c
	}
	return c
}

// Close ends the connection at once; posted work is flushed. It returns when the
// QP's goroutines are gone: soon, also when the peer does not read. A
// Terminate that is on its way is given its time (a second at most). It must not
// be called from a CQ handler; Abort may.
func (qp *QP) Close() error {
	qp.Abort(ErrClosed)
	qp.loops.Wait()
	<-qp.done
	return nil
}

// Abort begins the end of the QP and does not wait for it; err is what Err will
// return unless the QP ended before. It may be called from a CQ handler.
func (qp *QP) Abort(err error) {
	qp.mu.Lock()
	idle := qp.state == StateIdle
	if idle {
		qp.failed, qp.err = true, err
		qp.becomeError()
	}
	qp.mu.Unlock()
	if !idle {
		qp.end(err, true)
		return
	}
	qp.rq.flush(qp)
	qp.pd.detach(qp)
	close(qp.done)
	qp.loops.Go(func() { qp.recvCQ.notify() }) // not here: the caller may hold locks of its own
}

// Done is closed when the QP has left RTS for good and all work has been flushed.
func (qp *QP) Done() <-chan struct{} { return qp.done }

// Err is why the QP ended: nil while it has not, or after Disconnect; io.EOF when
// the peer closed in good order; ErrClosed after Close; *term.Error for a
// fault that we found, *term.PeerError for one that the peer told us of; or one that
// wraps ErrConnLost.
func (qp *QP) Err() error {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.err
}
