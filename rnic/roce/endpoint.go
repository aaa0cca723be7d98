// The endpoint: a QP, its core, and its port.

package roce

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// An endpoint is a QP's rnic.Endpoint. The port's goroutines run the endpoint, which has no
// goroutines itself.
type endpoint struct {
	// set once
	p   *provider
	q   *rnic.ProviderQP
	cfg rnic.QPConfig

	bound atomic.Pointer[binding] // nil before bind; constant once the QP is established

	accepting atomic.Pointer[cmLink] // set while the QP waits for its peer's RTU; see cmLink.heard
	closing   atomic.Bool            // no more work is posted; drained is due

	ends    chan struct{} // closed when no goroutine runs the endpoint; see finish
	drained chan struct{} // closed after closing, when no posted work is left

	// used by the port's goroutines
	touched      bool // by the receive loop: the batch has packets for the endpoint
	spoke        bool // by the receive loop: some of these packets came from the peer
	inReady      bool // under transmitter.mu: the endpoint is in the ready list
	next         *endpoint
	endQueued    bool         // under port.mu: in port.endQueue, or finished
	notifyQueued bool         // under port.mu: in port.notifyQueue
	heard        atomic.Int64 // Instant of the last packet from the peer
	overdue      int          // of the service loop: consecutive overdue answers at the last check
	nextCheck    core.Instant // under timers.mu: time of the next check
	slot         int          // under timers.mu: heap index; -1: none

	mu       sync.Mutex // before the locks of the core, and rnic's QP.mu
	started  bool       // guarded by mu, as are the fields below: the port will run finish
	hasDrain bool       // drained has been closed
	conn     *cmLink    // nil: connected out of band
	// psn is the first PSN. If the CM connects it is the peer's, since each side then names the PSN
	// that it expects. Out of band it is this side's.
	psn       uint32
	peer      netip.AddrPort
	groups    map[netip.Addr]struct{} // multicast groups that the QP is attached to
	sendError error                   // the network's last reason for refusing a packet
}

// A binding is an endpoint's core on a port.
type binding struct {
	port *port
	qp   *core.QP
	mtu  int // the interface's path MTU at bind time
}

// NewEndpoint returns an unbound endpoint.
func (p *provider) NewEndpoint(q *rnic.ProviderQP, cfg rnic.QPConfig) (rnic.Endpoint, error) {
	return &endpoint{p: p, q: q, cfg: cfg, slot: -1, ends: make(chan struct{}), drained: make(chan struct{})}, nil
}

// services maps package rnic's services to those in packets.
var services = [...]packet.Service{rnic.RC: packet.RC, rnic.UC: packet.UC, rnic.UD: packet.UD}

// bind gives the endpoint a QPN on a local address's port, in INIT.
func (e *endpoint) bind(local netip.Addr, qkey uint32) (*binding, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bound.Load() != nil {
		return nil, errBound
	}
	t, err := openPort(netip.AddrPortFrom(local.Unmap(), e.p.opt.Port), e.p.opt.Wrap)
	if err != nil {
		return nil, err
	}
	mtu := pathMTU(t.key.Addr())
	qp, err := e.add(t, qkey, mtu)
	if err != nil {
		t.release()
		return nil, err
	}
	b := &binding{t, qp, mtu}
	e.psn = random24()
	e.bound.Store(b)
	return b, nil
}

// add creates the endpoint's core on a port.
func (e *endpoint) add(t *port, qkey uint32, mtu int) (*core.QP, error) {
	var err error
	for range qpnTries {
		var qp *core.QP
		if qp, err = core.New(e.q, core.Config{Service: services[e.cfg.Service], Num: random24(), Depth: e.cfg.SQDepth, PortMTU: mtu, Owner: e}); err != nil {
			return nil, err
		}
		a, set := core.Attrs{PKey: defaultPKey, QKey: qkey, Access: allAccess}, core.AttrPKey|core.AttrAccess
		if e.cfg.Service == rnic.UD {
			set = core.AttrPKey | core.AttrQKey
		}
		if err = qp.Modify(core.INIT, set, a); err != nil {
			return nil, err
		}
		if err = t.core.Add(qp); err == nil || !errors.Is(err, core.ErrQPN) {
			return qp, err
		}
	}
	return nil, err
}

// A QP grants its peer all rights: the memory regions restrict them.
const (
	defaultPKey = 0xffff
	allAccess   = rnic.RemoteRead | rnic.RemoteWrite | rnic.RemoteAtomic
)

// unbind undoes bind if no connection was made.
func (e *endpoint) unbind() {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.bound.Load()
	if b == nil || e.started {
		return
	}
	e.leaveAll()
	e.bound.Store(nil)
	_ = b.qp.Modify(core.ERR, 0, core.Attrs{}) // ERR releases a held receive buffer
	b.port.core.Remove(b.qp)
	b.port.release()
}

// random24 returns an unpredictable QPN or PSN. QPNs 0 and 1 are reserved.
func random24() uint32 {
	for {
		var b [4]byte
		rand.Read(b[:])
		if n := binary.BigEndian.Uint32(b[:]) >> 8; n > core.GSI && n < core.MulticastQPN {
			return n
		}
	}
}

// establish brings a bound endpoint's core and rnic.QP to RTS; l is nil out of band. After an error
// the endpoint is unchanged.
func (e *endpoint) establish(s *session, l *cmLink) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.bound.Load()
	if b == nil {
		return errNotBound
	}
	if err := s.bringUp(b.qp, e.cfg.Service); err != nil {
		return err
	}
	if !e.q.Established(rnic.Connected{IRD: s.ird, ORD: s.ord, PrivateData: s.private, CRC: true}) {
		return rnic.ErrState
	}
	e.started, e.conn = true, l
	if s.attrs.Peer.IsValid() {
		e.peer = netip.AddrPortFrom(b.port.zoned(s.attrs.Peer), b.port.key.Port())
	}
	e.heard.Store(int64(now()))
	b.port.joinDecisions(e.q)
	e.q.JoinDecisions(e)
	if e.cfg.Service == rnic.RC {
		b.port.timers.arm(e, now()+keepalive)
	}
	return nil
}

// AddTo implements rnic.DecisionSource, for an established endpoint.
func (e *endpoint) AddTo(t rnic.DecisionTable) { e.bound.Load().qp.AddTo(t) }

// PostSend queues work, and transmits it unless another goroutine is transmitting.
func (e *endpoint) PostSend(wrs []rnic.Posted) error {
	b := e.bound.Load()
	if b == nil {
		return rnic.ErrState
	}
	if err := b.qp.Post(wrs); err != nil {
		return err
	}
	b.port.tx.kick(e)
	return nil
}

// ReceivesPosted sends an acknowledge to a peer that waits for receives.
func (e *endpoint) ReceivesPosted() {
	if !e.p.opt.FlowControl {
		return
	}
	if b := e.bound.Load(); b != nil && b.qp.ReceivesPosted() {
		b.port.tx.kick(e)
	}
}

// Release never waits: packets hold copies, made under the region's lock.
func (e *endpoint) Release(*rnic.MR) {}

// Moved returns posted work's progress in bytes of payload.
func (e *endpoint) Moved() uint64 {
	if b := e.bound.Load(); b != nil {
		return b.qp.Moved()
	}
	return 0
}

// LocalAddr returns the port's address, nil if the endpoint was never connected.
func (e *endpoint) LocalAddr() net.Addr {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.started {
		return nil
	}
	return net.UDPAddrFromAddrPort(e.bound.Load().port.key)
}

// RemoteAddr returns the peer's address; nil if the endpoint was never connected, and for UD, which
// has no single peer.
func (e *endpoint) RemoteAddr() net.Addr {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.started || !e.peer.IsValid() {
		return nil
	}
	return net.UDPAddrFromAddrPort(e.peer)
}
