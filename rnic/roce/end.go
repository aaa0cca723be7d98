// How an endpoint ends.

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

// errPeerLeft ends a QP whose peer has closed the connection with work outstanding.
var errPeerLeft = fmt.Errorf("%w: the peer closed it with work outstanding", rnic.ErrConnLost)

// Abort begins the end of a connected endpoint. It may be called from a CQ handler, and with locks
// of the caller's, so the port's service loop does the rest.
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

// finish is the end of an endpoint whose core is in ERR: it runs on the service loop of its port,
// once.
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
		e.p.paths.limit(peer, shorter(long.Bytes)) // before the disconnect: the peer then connects again
	}
	if conn == nil {
		t.core.Remove(b.qp) // else when the CM has released it
	}
	e.mu.Lock()
	e.leaveAll()
	e.mu.Unlock()
	conn.leave()
	t.timers.forget(e)
	e.q.Flushed()
	e.q.Ended()
	t.release()
	close(e.ends)
}

// Wait returns when no goroutine runs the endpoint any more. One that never was connected gives its
// port back.
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

// Disconnect takes no more posts, and waits until what was posted is done, then until the peer has
// been told.
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
	b.port.tx.flush(ctx.Done()) // the acknowledges that have been built: the last QP of the port closes its socket
	e.mu.Lock()
	conn := e.conn
	e.mu.Unlock()
	conn.disconnect(ctx, done)
	e.Abort(io.EOF) // which leaves no error after Disconnect
	<-done
	return e.q.QP().Err()
}

// checkDrained closes drained when all work is done that was posted before Disconnect, and the peer
// has the acknowledges of its own: what tells it of the end leaves after them.
func (e *endpoint) checkDrained(qp *core.QP) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.hasDrain && qp.Drained() {
		e.hasDrain = true
		close(e.drained)
	}
}

// refusedBy notes why the network did not take a packet: the cause to tell if the peer does not
// answer.
func (e *endpoint) refusedBy(err error) {
	e.mu.Lock()
	e.refusal = err
	e.mu.Unlock()
}

// doubt has the CM ask, once for each answer that is overdue, whether the peer still knows the
// connection. Only the service loop calls it.
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
		conn.c.do(func(m *cm.CM, _ cm.Instant) { _ = m.Doubt(conn.k) }) // an error: it is over, or the peer has to ask
	}
}

// cause is why the core ended, and what the network said if that is why the peer did not answer.
func (e *endpoint) cause(qp *core.QP) error {
	cause := qp.Ended()
	e.mu.Lock()
	defer e.mu.Unlock()
	if errors.Is(cause, core.ErrRetry) && e.refusal != nil {
		return fmt.Errorf("%w (%w)", cause, e.refusal)
	}
	return cause
}
