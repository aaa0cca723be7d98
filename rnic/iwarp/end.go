// How a stream ends: the first error, the Terminate, the flush, and the close.

package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
)

var errPeerLeft = fmt.Errorf("%w: the peer closed it with work outstanding", rnic.ErrConnLost)

// fail is the one way to the end of a connected stream: the first error is kept, and the
// transmit loop does the rest. It never blocks.
func (s *stream) fail(err error) { s.end(err, false) }

// Abort is fail without grace time for unsent work, unless a Terminate is already due, which still
// gets it.
func (s *stream) Abort(err error) { s.end(err, true) }

func (s *stream) end(err error, quick bool) {
	var fault *core.Fault
	if errors.Is(err, rnic.ErrCQOverrun) {
		fault = core.LocalFault(err)
	} else if errors.As(err, &fault) {
		err = fault.Err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if quick && s.link != nil && s.last == nil {
		s.quick = true
		s.link.conn().SetDeadline(past)
	}
	// Fail alone decides which error is the first. It sets the state: Terminate where the peer gets
	// a reason, else Error.
	if !s.q.Fail(err, fault != nil) {
		return
	}
	s.last = fault
	if s.link != nil {
		s.link.conn().SetWriteDeadline(past) // wakes a transmitter waiting for room
		s.wakeTx()
		s.right.notify() // so that the loop reads the end of the input
	}
}

// sendFailed ends the stream after a transmitter error. If the peer has reported why it ends the
// stream, the input holds that report, which is the better cause.
func (s *stream) sendFailed(err error) {
	if errors.Is(err, rnic.ErrConnLost) && !s.q.Failed() {
		s.right.notify() // the loop has to read the end of the input
		t := time.NewTimer(peerReasonTime)
		defer t.Stop()
		select {
		case <-s.eof:
		case <-t.C:
		}
	}
	s.fail(err)
}

// teardown runs on the transmit loop, once: nothing is placed or sent any more,
// all work completes, the peer gets a Terminate, the socket is closed.
func (s *stream) teardown() {
	// In this order: transmission ends, placement ends, all work completes. So flushed work is no
	// longer in use. The ULP has its buffers again after Flushed, however long the peer takes to
	// read the Terminate below.
	rest := s.tx.stop()
	s.rx.stop()
	s.work.Flush()
	s.q.Flushed()

	s.mu.Lock()
	last, quick := s.last, s.quick
	conn := s.link.conn()
	if !quick {
		// This replaces the expired write deadline, which has woken a waiting transmitter.
		conn.SetDeadline(time.Now().Add(graceTime))
	}
	s.mu.Unlock()
	if !quick {
		s.sendTerminateAndFIN(rest, last)
		// The receive loop discards until the peer's FIN, a reset or the deadline. Closing earlier,
		// with input unread, would reset the connection and lose the Terminate (RFC 5040 §6.2.1
		// [R5040-183]).
		<-s.eof
	}
	conn.Close()
	s.q.Ended()
}

// sendTerminateAndFIN sends the Terminate, if there is one to send, then FIN. A responder without a
// valid FPDU from its peer sends no Terminate (RFC 5044 §7.1.2 rule 4).
func (s *stream) sendTerminateAndFIN(rest []byte, last *core.Fault) {
	if last != nil && !s.work.Gated() {
		s.tx.mu.Lock()
		b := s.tx.out.Terminate(rest, last)
		s.tx.mu.Unlock()
		s.link.write(b)
	}
	s.link.closeWrite()
}

// Disconnect drains accepted work, sends FIN and awaits the peer's FIN.
func (s *stream) Disconnect(ctx context.Context) error {
	// From here PostSend is refused, and accepted work still goes out.
	drained := s.work.Close()
	done := s.q.QP().Done()
	select {
	case <-drained:
		// FIN goes through the transmit loop, and so after the last batch.
		s.finish()
	case <-done:
		return s.q.QP().Err()
	case <-ctx.Done():
	}
	select {
	case <-s.eof:
		<-done
		return s.q.QP().Err()
	case <-ctx.Done():
		dropUnsent(s.socket())
		s.Abort(ctx.Err())
		<-done
		return ctx.Err()
	}
}

// dropUnsent makes Close discard the socket's bytes not taken by the peer. Without dropUnsent the
// kernel continues to send for minutes. A late copy of a call could then be executed after its
// retry over another connection.
func dropUnsent(c net.Conn) {
	if l, ok := c.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0)
	}
}

// finish makes the transmit loop send FIN, because no other goroutine may wait for the peer.
func (s *stream) finish() {
	s.mu.Lock()
	s.finDue = true
	s.mu.Unlock()
	s.wakeTx()
	s.right.notify() // the loop has to read the peer's FIN
}

// takeFIN reports, once, that FIN is due.
func (s *stream) takeFIN() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.finDue
	s.finDue = false
	return due
}
