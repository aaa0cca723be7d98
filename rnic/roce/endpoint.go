// The endpoint: one QP, its core, and the port that it is bound to.

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

// An endpoint is the Endpoint of one QP. It has no goroutine: those of its port run it.
type endpoint struct {
	// set once
	p   *provider
	q   *rnic.ProviderQP
	cfg rnic.QPConfig

	bound atomic.Pointer[binding] // nil before bind, and not changed once the QP is established

	asks    atomic.Pointer[link] // of a QP that waits for its peer to confirm; see link.heard
	closing atomic.Bool          // no more is posted; drained is due

	ends    chan struct{} // closed when nothing of the endpoint runs any more; see finish
	drained chan struct{} // closed when closing and no posted work is left

	// of the port's goroutines
	touched bool // by the receive loop: packets of the batch in hand were for it,
	spoke   bool // and its peer sent one
	inReady bool // under transmitter.mu: it is in the ready list
	next    *endpoint
	dying   bool         // under port.mu: it is in the list of those that end, or has ended
	owes    bool         // under port.mu: it is in the list of those whose handlers have to run
	heard   atomic.Int64 // Instant of the last packet that came from the peer
	overdue int          // of the service loop: answers in a row that the peer owed when it was asked last
	check   core.Instant // under timers.mu: when the timers look at it
	slot    int          // under timers.mu: its place there; -1: none

	mu       sync.Mutex // before the locks of the core, and rnic's QP.mu
	started  bool       // guarded by mu, as is what follows: the port will run finish
	hasDrain bool       // drained has been closed
	conn     *link      // nil: connected out of band
	psn      uint32     // of the peer's first packet by the CM, which has each side name what it expects; of ours out of band
	peer     netip.AddrPort
	groups   map[netip.Addr]struct{} // multicast groups that the QP is attached to
	refusal  error                   // what the network said last of a packet that it did not take
}

// A binding is an endpoint on a port.
type binding struct {
	port *port
	qp   *core.QP
	mtu  int // path MTU of the interface when it was bound
}

// NewEndpoint makes an endpoint that is bound to no address.
func (p *provider) NewEndpoint(q *rnic.ProviderQP, cfg rnic.QPConfig) (rnic.Endpoint, error) {
	return &endpoint{p: p, q: q, cfg: cfg, slot: -1, ends: make(chan struct{}), drained: make(chan struct{})}, nil
}

// services are those of the verbs as packets name them.
var services = [...]packet.Service{rnic.RC: packet.RC, rnic.UC: packet.UC, rnic.UD: packet.UD}

// qpnTries is how many random QPNs are tried: few are taken.
const qpnTries = 16

// bind gives the endpoint a QPN on the port of a local address, in INIT.
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

// add makes the core of the endpoint on a port.
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

// A QP gives its peer all rights: the memory regions say which of them hold.
const (
	defaultPKey = 0xffff
	allAccess   = rnic.RemoteRead | rnic.RemoteWrite | rnic.RemoteAtomic
)

// unbind undoes bind where no connection came about.
func (e *endpoint) unbind() {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.bound.Load()
	if b == nil || e.started {
		return
	}
	e.leaveAll()
	e.bound.Store(nil)
	_ = b.qp.Modify(core.ERR, 0, core.Attrs{}) // a receive that it holds is released
	b.port.core.Remove(b.qp)
	b.port.release()
}

// random24 is a QPN or a PSN that nobody can guess. QPNs 0 and 1 are not for everybody.
func random24() uint32 {
	for {
		var b [4]byte
		rand.Read(b[:])
		if n := binary.BigEndian.Uint32(b[:]) >> 8; n > core.GSI && n < core.MulticastQPN {
			return n
		}
	}
}

// establish brings the core to RTS, and the QP of the verbs with it; l is nil out of band. The
// endpoint has been bound. After an error that is as it was.
func (e *endpoint) establish(s *session, l *link) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.bound.Load()
	if b == nil {
		return errNotBound
	}
	if err := s.ready(b.qp, e.cfg.Service); err != nil {
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
	if e.cfg.Service == rnic.RC {
		b.port.timers.arm(e, now()+keepalive)
	}
	return nil
}

// PostSend queues work, and sends it unless somebody else does.
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

// ReceivesPosted has a peer that waits for receives told that there are some.
func (e *endpoint) ReceivesPosted() {
	if !e.p.opt.FlowControl {
		return
	}
	if b := e.bound.Load(); b != nil && b.qp.ReceivesPosted() {
		b.port.tx.kick(e)
	}
}

// Release has nothing to wait for: packets hold copies, made under the lock of the region.
func (e *endpoint) Release(*rnic.MR) {}

// Moved is the payload progress of posted work.
func (e *endpoint) Moved() uint64 {
	if b := e.bound.Load(); b != nil {
		return b.qp.Moved()
	}
	return 0
}

// LocalAddr is the address of the port, nil when there was never a connection.
func (e *endpoint) LocalAddr() net.Addr {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.started {
		return nil
	}
	return net.UDPAddrFromAddrPort(e.bound.Load().port.key)
}

// RemoteAddr is the peer's address; nil when there was never a connection, and for UD, which has no
// one peer.
func (e *endpoint) RemoteAddr() net.Addr {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.started || !e.peer.IsValid() {
		return nil
	}
	return net.UDPAddrFromAddrPort(e.peer)
}
