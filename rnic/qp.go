// The Queue Pair: its creation, its end, and its properties.

package rnic

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// A QP is one end of a connection: a send queue and a receive queue, and the provider's Endpoint
// that moves messages between them and the peer's. Any goroutine may call its methods.
type QP struct {
	// set once, in CreateQP
	dev            *Device
	pd             *PD
	sendCQ, recvCQ *CQ
	ep             Endpoint
	scheduler      Scheduler // ep, or nil if ep is no Scheduler

	rq      recvQueue   // has its own lock
	sources atomic.Bool // connected.Sources, for each post

	done  chan struct{}  // closed when all work has been flushed
	tails sync.WaitGroup // the handler for a QP that ended before it was connected

	mu        sync.Mutex
	state     State // guarded by mu, as is all below
	failed    bool  // the QP has a cause to end: err
	err       error
	connected Connected // zero before the connection
	peer      AddressHandle
}

// CreateQP makes an unconnected QP. SendCQ and RecvCQ may be the same.
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

// Disconnect ends the connection in an orderly way: it refuses new posts, drains accepted work,
// notifies the peer, and awaits the peer's own end. If ctx ends first, the connection is closed at
// once and ctx's error returned. A CQ handler must not call it.
func (qp *QP) Disconnect(ctx context.Context) error {
	qp.mu.Lock()
	ok := qp.becomeClosing()
	qp.mu.Unlock()
	if !ok {
		return ErrState
	}
	return qp.ep.Disconnect(ctx)
}

// Close ends the connection at once; posted work is flushed. It returns when the QP's goroutines
// have ended: soon, even if the peer does not read. A fault report to the peer gets time to leave
// (at most a second). A CQ handler must not call it; it may call Abort.
func (qp *QP) Close() error {
	qp.Abort(ErrClosed)
	qp.ep.Wait()
	qp.tails.Wait()
	<-qp.done
	return nil
}

// Abort begins to end the QP and does not wait; err becomes the result of Err unless the QP ended
// before. A CQ handler may call it.
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
	qp.tails.Go(func() { qp.recvCQ.notify(nil) }) // on another goroutine, because the caller may hold locks
}

// idleOrErr refuses a QP that is connected or closed already.
func (qp *QP) idleOrErr() error {
	if qp.State() != StateIdle {
		return ErrState
	}
	return nil
}

// Done is closed when the QP has left RTS permanently, all work has been flushed, and the CQ
// handlers have processed that.
func (qp *QP) Done() <-chan struct{} { return qp.done }

// Err returns why the QP ended: nil while it has not, or after Disconnect; io.EOF after the peer's
// orderly end; ErrClosed after Close; a PeerError for a fault reported by the peer; a provider's
// error for a fault found here; or one that wraps ErrConnLost.
func (qp *QP) Err() error {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.err
}

// Moved returns the progress of posted work: the number of bytes taken by the network, and of bytes
// received for our RDMA Reads. Unrequested data from the peer does not count. If work is
// outstanding and Moved does not grow, the peer is making no progress.
func (qp *QP) Moved() uint64 { return qp.ep.Moved() }

// RemoteAddr returns the peer's address, or nil if the QP was never connected.
func (qp *QP) RemoteAddr() net.Addr { return qp.ep.RemoteAddr() }

// LocalAddr returns our address, or nil if the QP was never connected.
func (qp *QP) LocalAddr() net.Addr { return qp.ep.LocalAddr() }

// CRC reports whether sent messages have CRCs of the provider, checked by the receiver.
func (qp *QP) CRC() bool {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.connected.CRC
}

// Peer returns the destination found by a UD QP's Connect. It is zero for all other QPs.
func (qp *QP) Peer() AddressHandle {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.peer
}

// Join attaches a UD QP to an IP multicast group: it receives the datagrams sent to the group on
// the network of the QP's address with the QP's Q_Key, as do all other attached QPs. An attached
// sender gets its own datagrams. Join returns the destination for sending to the group; a sender
// need not join. The end of the QP leaves all groups.
func (qp *QP) Join(group netip.Addr) (AddressHandle, error) {
	if !qp.dev.serves(UD) {
		return AddressHandle{}, qp.dev.noService(UD)
	}
	return qp.ep.Join(group)
}

// Leave ends a Join. Later datagrams to the group do not reach the QP.
func (qp *QP) Leave(group netip.Addr) {
	if qp.dev.serves(UD) {
		qp.ep.Leave(group)
	}
}

// PrivateData returns the private data of the peer's ULP from set-up.
func (qp *QP) PrivateData() []byte {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.connected.PrivateData
}

// IRD returns the negotiated limit for the peer's concurrent RDMA Reads here.
func (qp *QP) IRD() int {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.connected.IRD
}

// ORD returns the negotiated limit for our concurrent RDMA Reads on the wire; more may be posted.
func (qp *QP) ORD() int {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.connected.ORD
}
