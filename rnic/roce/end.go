// Ending an endpoint.

package roce

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
)

// errPeerLeft ends a QP if its peer closed the connection while work was outstanding.
var errPeerLeft = fmt.Errorf("%w: the peer closed it with work outstanding", rnic.ErrConnLost)

// Abort starts ending a connected endpoint. Abort may run in a CQ handler and under the caller's
// locks, so the port's service loop completes the end.
func (e *endpoint) Abort(err error) {
	e.mu.Lock()
	b, started := e.bound.Load(), e.started
	e.mu.Unlock()
	if !started {
		return
	}
	e.q.Fail(err, false)
	_ = b.qp.Modify(core.ERR, 0, core.Attrs{})
	b.port.endLater(e)
}

// finish ends an endpoint after its core went to ERR. The port's service loop runs it once.
func (e *endpoint) finish() {
	b := e.bound.Load()
	t := b.port
	e.mu.Lock()
	conn, peer := e.conn, e.peer.Addr()
	e.mu.Unlock()
	cause := e.cause(b.qp)
	e.q.Fail(cause, false)
	var long *core.TooLong
	if errors.As(cause, &long) {
		// Set the limit before the disconnect, which makes the peer reconnect.
		e.p.paths.limit(peer, shorter(long.Bytes))
	}
	if conn == nil {
		t.core.Remove(b.qp) // otherwise cmLink.released removes the QP
	}
	e.mu.Lock()
	e.leaveAll()
	e.mu.Unlock()
	conn.leave()
	t.timers.forget(e)
	e.q.LeaveDecisions(e)
	e.q.Flushed()
	e.q.Ended()
	t.release()
	close(e.ends)
}

// Wait returns when no goroutine runs the endpoint any longer. It releases the port of an
// endpoint that was never connected.
func (e *endpoint) Wait() {
	e.mu.Lock()
	started := e.started
	e.mu.Unlock()
	if !started {
		e.unbind()
		return
	}
	<-e.ends
}

// Disconnect refuses further posts, waits for posted work to complete, then notifies the peer and
// waits for its answer.
func (e *endpoint) Disconnect(ctx context.Context) error {
	b := e.bound.Load()
	b.qp.ClosePosts()
	e.closing.Store(true)
	e.checkDrained(b.qp)
	done := e.q.QP().Done()
	select {
	case <-e.drained:
	case <-done:
		return e.q.QP().Err()
	case <-ctx.Done():
		e.Abort(ctx.Err())
		<-done
		return ctx.Err()
	}
	// Built acknowledges must leave: the port's last QP closes the socket.
	b.port.tx.flush(ctx.Done())
	e.mu.Lock()
	conn := e.conn
	e.mu.Unlock()
	conn.disconnect(ctx, done)
	e.Abort(io.EOF) // io.EOF, so that Disconnect leaves no error
	<-done
	return e.q.QP().Err()
}

// checkDrained closes drained when all work posted before Disconnect is complete and the peer's
// own work is acknowledged: the DREQ must leave after the acknowledges.
func (e *endpoint) checkDrained(qp *core.QP) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.hasDrain && qp.Drained() {
		e.hasDrain = true
		close(e.drained)
	}
}

// noteSendError records why the network refused a packet: the reported cause if the peer does not
// answer.
func (e *endpoint) noteSendError(err error) {
	e.mu.Lock()
	e.sendError = err
	e.mu.Unlock()
}

// doubt makes the CM ask whether the peer still knows the connection, once for each overdue
// answer. Only the service loop calls it.
func (e *endpoint) doubt(overdue int) {
	if overdue == e.overdue {
		return
	}
	e.overdue = overdue
	if overdue < doubtAfter {
		return
	}
	e.mu.Lock()
	conn := e.conn
	e.mu.Unlock()
	if conn != nil {
		// An error means that the connection has ended, or that the peer has to ask.
		conn.c.do(func(m *cm.CM, _ cm.Instant) { _ = m.Doubt(conn.k) })
	}
}

// cause returns the core's error. For a peer that did not answer cause adds the network's error.
func (e *endpoint) cause(qp *core.QP) error {
	cause := qp.Ended()
	e.mu.Lock()
	defer e.mu.Unlock()
	if errors.Is(cause, core.ErrRetry) && e.sendError != nil {
		return fmt.Errorf("%w (%w)", cause, e.sendError)
	}
	return cause
}
