// The link: one connection of the CM, joined to an endpoint.

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

// A link is what joins a cm.Conn to the endpoint that it is about. It holds the port until the CM
// has released the connection: only then may its QPN be used again.
type link struct {
	// set once
	c       *control
	e       *endpoint
	session *session      // what this side brings
	made    chan struct{} // closed when the connection is established, or will not be: err
	over    chan struct{} // closed when it has ended

	waits atomic.Bool // passive: the REP is out, and a packet on the QP says that the RTU is late

	// guarded by control.mu
	k    *cm.Conn // set before asks, or the CM, has the link
	qp   *core.QP
	err  error // why the connection was not made, nil if it was
	done bool  // made is closed
	used bool  // the endpoint was established with it, so its QP stays until this is released
}

// newLink joins an endpoint that has been bound to a connection of its port. It fails if that was
// undone: the QP may be closed meanwhile, and the port with it.
func newLink(e *endpoint, b *binding, s *session) (*link, error) {
	if err := e.holdPort(b); err != nil {
		return nil, err
	}
	return &link{c: &b.port.control, e: e, session: s, qp: b.qp, made: make(chan struct{}), over: make(chan struct{})}, nil
}

// holdPort keeps the port of a binding open until its release; it fails if the binding was undone.
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

// settle closes made. The caller holds control.mu, as do those of the methods that are told of
// events.
func (l *link) settle(err error) {
	if !l.done {
		l.done, l.err = true, err
		l.waits.Store(false)
		close(l.made)
	}
}

// replied: the peer accepts. The QP is ready before it is told so.
func (l *link) replied(at cm.Instant, e *cm.Event) {
	s, r := l.session, &e.Remote
	s.attrs.DestQPN, s.attrs.SQPSN, s.attrs.PeerPort = r.QPN, r.PSN, l.c.onePort(l.c.from)
	s.attrs.RNRRetry, s.attrs.ObeyCredits = r.RNRRetryCount, tellsCredits(r)
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

// established: on the passive side the RTU has come, and what the peer sends is the program's from
// now on.
func (l *link) established(at cm.Instant) {
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
func (l *link) ended(why error) {
	l.settle(refusal(why))
	close(l.over)
	if l.err == nil {
		l.e.peerLeft(why)
	}
}

// released: the CM knows nothing of it any more.
func (l *link) released() {
	l.settle(rnic.ErrClosed)
	if l.used {
		l.c.t.core.Remove(l.qp)
	}
	// The port's last user closes its socket, which the receive loop, that may be who runs this,
	// does not wait for.
	l.c.t.release()
}

// Errors of connections that were not made.
var (
	errRefused  = errors.New("roce: connection refused: nobody listens there")
	errNoAnswer = fmt.Errorf("%w: no answer to the connection request", rnic.ErrConnLost)
)

// refusal is why a connection was not made, in the words of the verbs.
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

// peerLeft ends a connected endpoint because the connection is over: the peer has disconnected, or
// it was ours.
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

// leave tells the peer that the connection is over, and does not wait. A nil link has no peer to be
// told.
func (l *link) leave() {
	if l != nil {
		l.c.do(func(m *cm.CM, at cm.Instant) { _ = m.Disconnect(at, l.k, nil) }) // an error: it is over already
	}
}

// disconnectTime is how long the peer is waited for that has been told of the end; it is told again
// after that.
const disconnectTime = 2 * time.Second

// disconnect tells the peer that the connection is over, and waits for its answer.
func (l *link) disconnect(ctx context.Context, done <-chan struct{}) {
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

// heard has the CM ask for the RTU that is late.
func (l *link) heard() {
	l.c.do(func(m *cm.CM, at cm.Instant) { m.Heard(at, l.k) })
}
