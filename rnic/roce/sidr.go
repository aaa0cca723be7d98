// SIDR: a UD QP asks for a service's QP, and a listener answers.

package roce

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// UDPQKey is the Q_Key of UD QPs established by Connect and Accept: rdma_cm's RDMA_UDP_QKEY. The
// Q_Key is public.
const UDPQKey = 0x01234567

var errOtherAddress = errors.New("roce: the request came to another address than the one that the QP is bound to")

// statuses maps reject reasons to SIDR_REP status codes.
var statuses = map[mad.Reason]mad.SIDRStatus{
	mad.RejConsumer: mad.SIDRRejected, mad.RejServiceID: mad.SIDRUnsupported, mad.RejNoQP: mad.SIDRNoQP,
}

// A sidrRequest is one SIDR_REQ by this side. It keeps its port open until the CM releases the
// request.
type sidrRequest struct {
	c    *control      // set once
	made chan struct{} // closed when there is an answer, or an error

	// guarded by control.mu
	k       *cm.Conn
	done    bool // made is closed
	answer  cm.QP
	private []byte
	err     error
}

// handleEvent handles an event. The caller holds control.mu.
func (q *sidrRequest) handleEvent(e *cm.Event) {
	switch e.Kind {
	case cm.Resolved:
		q.answer, q.private = e.Remote, e.Private
		q.settle(nil)
	case cm.Ended:
		q.settle(unresolved(e.Err))
	case cm.Released:
		q.settle(rnic.ErrClosed)
		q.c.t.release()
	}
}

func (q *sidrRequest) settle(err error) {
	if !q.done {
		q.done, q.err = true, err
		close(q.made)
	}
}

// unresolved translates the CM's error from a failed SIDR request to the error for the ULP.
func unresolved(why error) error {
	var r *cm.SIDRError
	switch {
	case errors.As(why, &r) && r.Status == mad.SIDRRejected:
		return &rnic.RejectError{PrivateData: r.Private}
	case errors.As(why, &r) && r.Status == mad.SIDRUnsupported:
		return errRefused
	}
	return refusal(why)
}

// resolveUD asks the listener at an address for its QP, and brings the bound endpoint to RTS. After
// an error the endpoint is unbound.
func (e *endpoint) resolveUD(ctx context.Context, b *binding, to netip.AddrPort, private []byte) error {
	err := e.requestSIDR(ctx, b, to, private)
	if err != nil {
		e.unbind()
	}
	return err
}

func (e *endpoint) requestSIDR(ctx context.Context, b *binding, to netip.AddrPort, private []byte) error {
	if err := e.holdPort(b); err != nil {
		return err
	}
	q := &sidrRequest{c: &b.port.control, made: make(chan struct{})}
	var err error
	q.c.do(func(m *cm.CM, at cm.Instant) {
		q.k, err = m.Resolve(at, cm.Request{Peer: to.Addr(), Service: serviceID(rnic.UD, to.Port()), SourcePort: sourcePort(), Private: private})
		if err == nil {
			q.k.Owner = q
		}
	})
	if err != nil {
		b.port.release()
		return err
	}
	select {
	case <-q.made:
	case <-ctx.Done():
		// An error means that the request has already ended.
		q.c.do(func(m *cm.CM, at cm.Instant) { _ = m.Disconnect(at, q.k, nil) })
		return fmt.Errorf("roce: request for a datagram service: %w", ctx.Err())
	}
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	if q.err != nil {
		return q.err
	}
	e.q.Resolved(rnic.AddressHandle{Addr: to.Addr(), QPN: q.answer.QPN, QKey: q.answer.QKey})
	return e.establish(&session{attrs: core.Attrs{SQPSN: e.psn}, private: q.private}, nil)
}

// answerSIDR answers a SIDR request with a bound endpoint's QPN and Q_Key, and brings the endpoint
// to RTS if necessary: the peer's first datagram may come as soon as the answer has left.
func (r *connRequest) answerSIDR(e *endpoint, b *binding, private []byte) (err error) {
	_, a := b.qp.Query()
	r.c.do(func(m *cm.CM, at cm.Instant) {
		if err = m.Answer(at, r.k, mad.SIDRValid, b.qp.Num(), a.QKey, private); err == nil && e.q.QP().State() == rnic.StateIdle {
			err = e.establish(&session{attrs: core.Attrs{SQPSN: e.psn}, private: r.private}, nil)
		}
	})
	return err
}
