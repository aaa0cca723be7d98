// The Queue Pair: what a program posts to, and how it ends.

package rnic

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// A QP is one end of a connection: a send queue and a receive queue, and the provider's Endpoint
// that moves messages between them and the peer's. Its methods may be called from any goroutine.
type QP struct {
	// set once, in CreateQP
	dev            *Device
	pd             *PD
	sendCQ, recvCQ *CQ
	ep             Endpoint
	scheduler      Scheduler // ep, or nil where it is none

	rq      recvQueue   // has its own lock
	sources atomic.Bool // connected.Sources, for each post

	done  chan struct{}  // closed when all work has been flushed
	tails sync.WaitGroup // the handler of a QP that ended before it was connected

	mu        sync.Mutex
	state     State // guarded by mu, as is all that follows
	failed    bool  // it has a cause to end, and err is that
	err       error
	connected Connected // zero before it is connected
	peer      AddressHandle
}

// CreateQP makes a QP that is not connected. SendCQ and RecvCQ may be the same.
func (pd *PD) CreateQP(cfg QPConfig) (*QP, error) {
	if cfg.SendCQ == nil || cfg.RecvCQ == nil {
		return nil, errNoCQ
	}
	if !pd.dev.serves(cfg.Service) {
		return nil, pd.dev.noService(cfg.Service)
	}
	qp := &QP{dev: pd.dev, pd: pd, sendCQ: cfg.SendCQ, recvCQ: cfg.RecvCQ, done: make(chan struct{})}
	qp.rq.init(cfg.RQDepth)
	var err error
	if qp.ep, err = pd.dev.provider.NewEndpoint((*ProviderQP)(qp), cfg); err != nil {
		return nil, err
	}
	qp.scheduler, _ = qp.ep.(Scheduler)
	pd.attach(qp)
	return qp, nil
}

// Disconnect ends the connection in good order: no more posts are taken,
// accepted work is drained, then the peer is told, then its own end is awaited. When ctx
// ends first the connection is closed at once and ctx's error is returned. It must
// not be called from a CQ handler.
func (qp *QP) Disconnect(ctx context.Context) error {
	qp.mu.Lock()
	ok := qp.becomeClosing()
	qp.mu.Unlock()
	if !ok {
		return ErrState
	}
	return qp.ep.Disconnect(ctx)
}

// Close ends the connection at once; posted work is flushed. It returns when the
// QP's goroutines are gone: soon, also when the peer does not read. What tells the peer of a
// fault, if it is on its way, is given its time (a second at most). It must not
// be called from a CQ handler; Abort may.
func (qp *QP) Close() error {
	qp.Abort(ErrClosed)
	qp.ep.Wait()
	qp.tails.Wait()
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
		qp.ep.Abort(err)
		return
	}
	qp.rq.flush(qp)
	qp.pd.detach(qp)
	close(qp.done)
	qp.tails.Go(func() { qp.recvCQ.notify() }) // not here: the caller may hold locks of its own
}

// idleOrErr refuses a QP that is connected or closed already.
func (qp *QP) idleOrErr() error {
	if qp.State() != StateIdle {
		return ErrState
	}
	return nil
}

// Done is closed when the QP has left RTS for good, all work has been flushed, and the handlers of
// its CQs have been told of that.
func (qp *QP) Done() <-chan struct{} { return qp.done }

// Err is why the QP ended: nil while it has not, or after Disconnect; io.EOF when
// the peer closed in good order; ErrClosed after Close; a PeerError for a fault that the
// peer told us of; an error of the provider's for one that we found; or one that wraps ErrConnLost.
func (qp *QP) Err() error {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.err
}

// Moved returns how much of the work posted here has been done, in bytes: those that the
// network has taken, and those that the peer has sent for our RDMA Reads.
// What the peer sends unasked does not count. A QP with work outstanding whose
// Moved does not grow is one whose peer does nothing for it.
func (qp *QP) Moved() uint64 { return qp.ep.Moved() }

// RemoteAddr is the peer's address, nil when the QP was never connected.
func (qp *QP) RemoteAddr() net.Addr { return qp.ep.RemoteAddr() }

// LocalAddr is our address, nil when the QP was never connected.
func (qp *QP) LocalAddr() net.Addr { return qp.ep.LocalAddr() }

// CRC reports whether what is sent over the connection has CRCs of the provider's, which the
// receiver checks.
func (qp *QP) CRC() bool {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.connected.CRC
}

// Peer is the QP that Connect of a UD QP has been told of: where to send to. Its zero value is of
// all other QPs.
func (qp *QP) Peer() AddressHandle {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.peer
}

// Join attaches a QP of UD to a multicast group of IP: what is sent to the group on the network of
// the QP's address, with the QP's Q_Key, comes to it too, as to all others that are attached. A
// sender that is attached gets its own datagrams. Join returns where to send to the group, for
// which nobody has to have joined it. Groups are left when the QP ends.
func (qp *QP) Join(group netip.Addr) (AddressHandle, error) {
	if !qp.dev.serves(UD) {
		return AddressHandle{}, qp.dev.noService(UD)
	}
	return qp.ep.Join(group)
}

// Leave ends what Join began. Nothing that is sent to the group later comes to the QP.
func (qp *QP) Leave(group netip.Addr) {
	if qp.dev.serves(UD) {
		qp.ep.Leave(group)
	}
}

// PrivateData is what the peer's ULP sent when the connection was made.
func (qp *QP) PrivateData() []byte {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.connected.PrivateData
}

// IRD is how many RDMA Reads of the peer's are taken at once, as negotiated.
func (qp *QP) IRD() int {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.connected.IRD
}

// ORD is how many RDMA Reads of ours are on the wire at once, as negotiated;
// more may be posted.
func (qp *QP) ORD() int {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.connected.ORD
}
