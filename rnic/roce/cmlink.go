// A CM connection joined to an endpoint.

package roce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// A cmLink joins a cm.Conn to its endpoint. The link keeps the port open until the CM has released
// the connection, because only then may the QPN be reused.
type cmLink struct {
	// set once
	c       *control
	e       *endpoint
	session *session      // this side's parameters
	made    chan struct{} // closed when the connection is established, or has failed with err
	over    chan struct{} // closed when the connection has ended

	awaitsRTU atomic.Bool // passive: the REP is sent; a packet on the QP shows that the RTU is late

	// guarded by control.mu
	k    *cm.Conn // set before endpoint.accepting or the CM holds the link
	qp   *core.QP
	err  error // why the connection failed, or nil
	done bool  // made is closed
	used bool  // the endpoint was established; released removes the QP
}

// newCMLink joins a bound endpoint to a connection of its port. newCMLink fails if the binding was
// undone meanwhile: the QP, and with it the port, may have been closed.
func newCMLink(e *endpoint, b *binding, s *session) (*cmLink, error) {
	if err := e.holdPort(b); err != nil {
		return nil, err
	}
	return &cmLink{c: &b.port.control, e: e, session: s, qp: b.qp, made: make(chan struct{}), over: make(chan struct{})}, nil
}

// holdPort keeps a binding's port open until its release; holdPort fails if the binding was undone.
func (e *endpoint) holdPort(b *binding) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bound.Load() != b {
		return rnic.ErrClosed
	}
	ports.mu.Lock()
	b.port.users++
	ports.mu.Unlock()
	return nil
}

// settle closes made. The caller of settle and of the link's event handlers holds control.mu.
func (l *cmLink) settle(err error) {
	if !l.done {
		l.done, l.err = true, err
		l.awaitsRTU.Store(false)
		close(l.made)
	}
}

// replied handles the peer's REP. The QP is ready before the RTU leaves.
func (l *cmLink) replied(at cm.Instant, e *cm.Event) {
	s, r := l.session, &e.Remote
	s.attrs.DestQPN, s.attrs.SQPSN, s.attrs.PeerPort = r.QPN, r.PSN, l.c.peerPort(l.c.from)
	s.attrs.RNRRetry, s.attrs.ObeyCredits = r.RNRRetryCount, sendsCredits(r)
	s.ord = min(s.ord, int(r.ResponderResources))
	s.private = e.Private
	err := l.e.establish(s, l)
	if l.used = err == nil; l.used {
		err = l.c.cm.Confirm(at, e.Conn, nil)
	}
	if err != nil {
		l.settle(err)
		_ = l.c.cm.Disconnect(at, e.Conn, nil)
	}
}

// established: on the passive side the RTU has come; from now on the program gets the peer's
// messages.
func (l *cmLink) established(at cm.Instant) {
	if !l.k.Active() {
		if err := l.e.establish(l.session, l); err != nil {
			l.settle(err)
			_ = l.c.cm.Disconnect(at, l.k, nil)
			return
		}
		l.used = true
	}
	l.settle(nil)
}

// ended: the connection is over, or was never made.
func (l *cmLink) ended(why error) {
	l.settle(refusal(why))
	close(l.over)
	if l.err == nil {
		l.e.peerLeft(why)
	}
}

// released: the CM has forgotten the connection.
func (l *cmLink) released() {
	l.settle(rnic.ErrClosed)
	if l.used {
		l.c.t.core.Remove(l.qp)
	}
	// The port's last user closes its socket without waiting for the receive loop, which may be
	// the current goroutine.
	l.c.t.release()
}

// Errors of failed connection attempts.
var (
	errRefused  = errors.New("roce: connection refused: nobody listens there")
	errNoAnswer = fmt.Errorf("%w: no answer to the connection request", rnic.ErrConnLost)
)

// refusal translates the CM's error from a failed connection attempt to the error for the ULP.
func refusal(why error) error {
	var r *cm.RejectError
	switch {
	case errors.As(why, &r) && r.Reason == mad.RejConsumer:
		return &rnic.RejectError{PrivateData: r.Private}
	case errors.As(why, &r) && r.Reason == mad.RejServiceID:
		return errRefused
	case errors.Is(why, cm.ErrTimeout):
		return errNoAnswer
	case why == nil:
		return rnic.ErrClosed
	}
	return fmt.Errorf("roce: %w", why)
}

// peerLeft ends a connected endpoint after a disconnect by either side, or a CM error.
func (e *endpoint) peerLeft(why error) {
	var err error = io.EOF
	switch {
	case why != nil && !errors.Is(why, cm.ErrDisconnected):
		err = fmt.Errorf("%w: %w", rnic.ErrConnLost, why)
	case e.bound.Load().qp.Outstanding():
		err = errPeerLeft
	}
	e.Abort(err)
}

// leave notifies the peer of the end without waiting. A nil cmLink has no peer.
func (l *cmLink) leave() {
	if l != nil {
		// An error means that the connection has already ended.
		l.c.do(func(m *cm.CM, at cm.Instant) { _ = m.Disconnect(at, l.k, nil) })
	}
}

// disconnect notifies the peer of the end, and waits for its answer.
func (l *cmLink) disconnect(ctx context.Context, done <-chan struct{}) {
	if l == nil {
		return
	}
	l.leave()
	t := time.NewTimer(disconnectTime)
	defer t.Stop()
	select {
	case <-l.over:
	case <-done:
	case <-t.C:
	case <-ctx.Done():
	}
}

// heard makes the CM request a late RTU.
func (l *cmLink) heard() {
	l.c.do(func(m *cm.CM, at cm.Instant) { m.Heard(at, l.k) })
}
