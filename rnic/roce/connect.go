// The active side of a connection: a local address, a QP bound to it, and the REQ.

package roce

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

var errPrivateData = fmt.Errorf("roce: at most %d bytes of private data", privateDataMax)

// Connect requests a connection from the listener at addr ("host:port"). The port names the
// service, not a UDP port. After an error the QP is unchanged, unless it was closed meanwhile.
func (p *provider) Connect(ctx context.Context, ep rnic.Endpoint, addr string, cp rnic.ConnParams) error {
	e, ok := ep.(*endpoint)
	switch {
	case !ok:
		return errForeignQP
	case len(cp.PrivateData) > privateDataMax:
		return errPrivateData
	}
	limit := p.cfg.HandshakeTimeout
	if limit <= 0 {
		limit = connectTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	to, err := resolve(ctx, addr)
	if err != nil {
		return err
	}
	b, err := p.bindFor(e, to.Addr(), UDPQKey)
	if err != nil {
		return err
	}
	if e.cfg.Service == rnic.UD {
		return e.resolveUD(ctx, b, to, cp.PrivateData)
	}
	peer := b.port.zoned(to.Addr())
	mtu := p.paths.mostTo(b.port, peer)
	for err = e.request(ctx, b, to, &cp, mtu); err != nil; err = e.request(ctx, b, to, &cp, mtu) {
		var r *cm.RejectError
		if !errors.As(err, &r) || r.Reason != mad.RejMTU || len(r.Info) == 0 || mad.MTU(r.Info[0]).Bytes() == 0 || mad.MTU(r.Info[0]).Bytes() >= mtu {
			e.unbind()
			return err
		}
		mtu = mad.MTU(r.Info[0]).Bytes() // the largest accepted by the peer
		p.paths.limit(peer, mtu)
	}
	return nil
}

// request makes one connection request, and waits for the outcome.
func (e *endpoint) request(ctx context.Context, b *binding, to netip.AddrPort, cp *rnic.ConnParams, mtu int) error {
	c := &b.port.control
	s := e.newSession(cp, to.Addr(), mtu)
	l, err := newCMLink(e, b, s)
	if err != nil {
		return err
	}
	local := e.local(b, s, mtu)
	local.AckTimeout = peerTimeout
	c.do(func(m *cm.CM, at cm.Instant) {
		l.k, err = m.Connect(at, cm.Request{Peer: to.Addr(), Service: serviceID(e.cfg.Service, to.Port()), Local: local,
			SourcePort: sourcePort(), Private: cp.PrivateData})
		if err == nil {
			l.k.Owner = l
		}
	})
	if err != nil {
		b.port.release()
		return err
	}
	select {
	case <-l.made:
	case <-ctx.Done():
		l.leave()
		<-l.made // the attempt may have succeeded meanwhile
		c.mu.Lock()
		err = l.err
		c.mu.Unlock()
		if err == nil {
			e.Abort(ctx.Err())
		}
		return fmt.Errorf("roce: connection request: %w", ctx.Err())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return l.err
}

// newSession returns this side's parameters for a connection with peer.
func (e *endpoint) newSession(cp *rnic.ConnParams, peer netip.Addr, mtu int) *session {
	s := &session{}
	if e.cfg.Service == rnic.RC {
		s.ird, s.ord = atMost(cp.IRD, e.p.cfg.MaxIRD), atMost(cp.ORD, e.p.cfg.MaxORD)
	}
	s.attrs = core.Attrs{Peer: peer, PathMTU: mtu, RQPSN: e.psn,
		Timeout: localTimeout, RetryCount: retryCount, RNRRetry: rnrRetry, RNRTimer: rnrTimer, GiveCredits: e.p.opt.FlowControl}
	return s
}

// local describes this side's QP to the peer, including the PSN that the peer must start with.
func (e *endpoint) local(b *binding, s *session, mtu int) cm.QP {
	return cm.QP{QPN: b.qp.Num(), PSN: e.psn, ResponderResources: uint8(s.ird), InitiatorDepth: uint8(s.ord), RNRRetryCount: rnrRetry,
		AckTimeout: localTimeout, Transport: transports[e.cfg.Service], PathMTU: mtuCode(mtu), RetryCount: retryCount,
		FlowControl: s.attrs.GiveCredits && e.cfg.Service == rnic.RC}
}

// transports are the REQ codes for connected services, and protocols the protocol field in the
// services' IDs, as in Linux's rdma_cm.
var (
	transports = [...]mad.Service{rnic.RC: mad.ServiceRC, rnic.UC: mad.ServiceUC}
	protocols  = [...]uint8{rnic.RC: mad.ProtocolTCP, rnic.UC: mad.ProtocolIB, rnic.UD: mad.ProtocolUDP}
)

func serviceID(s rnic.Service, port uint16) mad.ServiceID { return mad.IPService(protocols[s], port) }

// sourcePort returns an unused source port to report to the peer's program.
func sourcePort() uint16 { return 1<<15 | uint16(random24()) }

// resolve parses a "host:port" address and looks up the host.
func resolve(ctx context.Context, addr string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return netip.AddrPort{}, fmt.Errorf("roce: %s: no port number", addr)
	}
	at, err := netip.ParseAddr(host)
	if err != nil {
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return netip.AddrPort{}, err
		}
		at = found[0]
	}
	return netip.AddrPortFrom(at.Unmap(), uint16(n)), nil
}

// spareNet contains the loopback addresses to try.
var spareNet = netip.MustParsePrefix("127.64.0.0/10")

// spare is the last loopback address that this process found free. Servers recognize a
// reconnecting client by its address when it repeats calls, so the address MUST NOT change each
// time.
var spare struct {
	mu   sync.Mutex
	addr netip.Addr // guarded by mu
}

// bindFor binds an endpoint to this host's source address for packets to peer. Two processes on a
// host cannot share the port of an address. If peer is on this host too, packets may come from
// another address in 127.0.0.0/8 instead.
func (p *provider) bindFor(e *endpoint, peer netip.Addr, qkey uint32) (*binding, error) {
	from, err := route(peer)
	if err != nil {
		return nil, err
	}
	if !peer.Is4() || from != peer && !peer.IsLoopback() {
		return e.bind(from, qkey)
	}
	spare.mu.Lock() // held to the end: concurrent connections use the same address
	defer spare.mu.Unlock()
	first := from
	if spare.addr.IsValid() {
		first = spare.addr
	}
	b, err := e.bind(first, qkey)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return b, err
	}
	for range localTries {
		var r [3]byte
		rand.Read(r[:])
		net := spareNet.Addr().As4()
		at := netip.AddrFrom4([4]byte{net[0], net[1] | r[0]>>2, r[1], r[2] | 1})
		if b, err = e.bind(at, qkey); err == nil {
			spare.addr = at
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return b, err
}

// route returns this host's source address for packets to peer. route sends nothing.
func route(peer netip.Addr) (netip.Addr, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(peer, UDPPort)))
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}
