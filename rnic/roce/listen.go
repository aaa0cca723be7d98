// Listening: a service on one address's port or on all, and the requests waiting for Accept.

package roce

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// A listener serves one service on one or more ports.
type listener struct {
	// set once
	p       *provider
	kind    rnic.Service
	service mad.ServiceID
	addr    net.Addr
	ready   chan *connRequest // the capacity limits the waiting requests
	done    chan struct{}

	loop sync.WaitGroup // followAddrs

	unserved map[netip.Addr]bool // unavailable addresses; owned by Listen, then by followAddrs

	mu     sync.Mutex // after control.mu
	ports  []*port    // guarded by mu, as is closed
	closed bool
}

var (
	errListen  = errors.New("roce: the service is taken on this address by another listener of this process")
	errNoAddrs = errors.New("roce: this host has no address to listen at")
)

// Listen accepts connection requests for a service. addr is one address of this host ("host:port"),
// or all addresses (":port", or "0.0.0.0:port" for IPv4). A listener on all addresses also serves
// addresses added or freed later, and needs at least one free address now. Each service has its own
// port numbers.
func (p *provider) Listen(s rnic.Service, _, addr string) (rnic.Listener, error) {
	at, err := listenAddr(addr)
	if err != nil {
		return nil, err
	}
	port := at.Port()
	l := &listener{p: p, kind: s, service: serviceID(s, port), ready: make(chan *connRequest, p.cfg.MaxHandshakes), done: make(chan struct{})}
	l.addr = net.UDPAddrFromAddrPort(at)
	all := at.Addr().IsUnspecified()
	if all {
		err = l.addAll(at.Addr())
	} else {
		err = l.add(at.Addr())
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("listen at %s: %w", addr, err)
	}
	if all {
		l.loop.Go(func() { l.followAddrs(at.Addr()) })
	}
	return l, nil
}

// followAddrs listens on new and freed addresses until the listener is closed.
func (l *listener) followAddrs(all netip.Addr) {
	tick := time.NewTicker(followTime)
	defer tick.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-tick.C:
			_ = l.addAll(all) // retries failed addresses, too
		}
	}
}

// addAll listens on all the host's addresses, or its IPv4 addresses, that are not served yet. It
// fails if no address is served afterwards; otherwise it reports the unavailable addresses.
func (l *listener) addAll(all netip.Addr) error {
	own, err := hostAddrs(all)
	if err != nil {
		return err
	}
	failed := make(map[netip.Addr]error)
	for _, a := range own {
		if l.has(a) {
			continue
		}
		err := l.add(a)
		switch {
		// The address was removed, or IPv6 is still checking for duplicates.
		case errors.Is(err, syscall.EADDRNOTAVAIL):
		case err != nil:
			failed[a] = err
		default:
			l.report(a, nil)
		}
	}
	l.mu.Lock()
	served := len(l.ports)
	l.mu.Unlock()
	if served == 0 {
		for _, err := range failed {
			return err
		}
		return errNoAddrs
	}
	for a, err := range failed {
		l.report(a, err)
	}
	return nil
}

// report calls Options.Unserved, once for each change. Only one goroutine at a time calls it.
func (l *listener) report(a netip.Addr, err error) {
	if l.p.opt.Unserved == nil || l.unserved[a] == (err != nil) {
		return
	}
	if l.unserved == nil {
		l.unserved = make(map[netip.Addr]bool)
	}
	l.unserved[a] = err != nil
	l.p.opt.Unserved(a, err)
}

func (l *listener) has(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.ports, func(t *port) bool { return t.key.Addr() == a })
}

// listenAddr parses a service's address and port; unspecified means all addresses.
func listenAddr(addr string) (at netip.AddrPort, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return at, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return at, fmt.Errorf("roce: listen at %s: a service needs a port number", addr)
	}
	ip := &net.IPAddr{IP: net.IPv6unspecified}
	if host != "" {
		if ip, err = net.ResolveIPAddr("ip", host); err != nil {
			return at, err
		}
	}
	a, _ := netip.AddrFromSlice(ip.IP)
	return netip.AddrPortFrom(a.Unmap().WithZone(ip.Zone), uint16(n)), nil
}

// hostAddrs returns this host's addresses, only those for IPv4 if all is 0.0.0.0.
func hostAddrs(all netip.Addr) (list []netip.Addr, err error) {
	own, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for i := range own {
		addrs, _ := own[i].Addrs() // an interface removed meanwhile has no addresses
		for _, a := range addrs {
			ip, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			at, _ := netip.AddrFromSlice(ip.IP)
			if at = canonical(at.Unmap().WithZone(own[i].Name)); at.IsValid() && (all.Is6() || at.Is4()) && !slices.Contains(list, at) {
				list = append(list, at)
			}
		}
	}
	return list, nil
}

// add listens on one address's port.
func (l *listener) add(at netip.Addr) error {
	t, err := openPort(netip.AddrPortFrom(at, l.p.opt.Port), l.p.opt.Wrap)
	if err != nil {
		return err
	}
	t.control.do(func(m *cm.CM, at cm.Instant) {
		if err = m.Listen(l.service); err == nil {
			t.control.services[l.service] = l
			t.control.setHalfOpenLimit()
			// Ending old connections must follow registering the listener: a peer reconnects as
			// soon as it learns of the end.
			t.control.recordConns(at, l.p.opt.State)
		}
	})
	if err != nil {
		t.release()
		return errListen
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ports = append(l.ports, t)
	return nil
}

// enqueue queues a request for Accept, and returns false if too many wait. The caller holds
// control.mu of c.
func (l *listener) enqueue(c *control, e *cm.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.ready) == cap(l.ready) {
		return false
	}
	ports.mu.Lock()
	c.t.users++ // until the request is answered, even if the listener closes first
	ports.mu.Unlock()
	l.ready <- &connRequest{c: c, kind: l.kind, k: e.Conn, remote: e.Remote, source: netip.AddrPortFrom(c.t.zoned(e.Source.Addr()), e.Source.Port()), from: c.from, abandoned: make(chan struct{}), private: e.Private}
	return true
}

// Accept returns the next connection request.
func (l *listener) Accept(ctx context.Context) (rnic.ConnRequest, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-l.done:
		return nil, rnic.ErrClosed
	default:
	}
	select {
	case r := <-l.ready:
		return r, nil
	case <-l.done:
		return nil, rnic.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Addr returns the service's address and port.
func (l *listener) Addr() net.Addr { return l.addr }

// Close stops listening and rejects waiting requests.
func (l *listener) Close() error {
	l.mu.Lock()
	was := l.closed
	l.closed = true
	l.mu.Unlock()
	if was {
		return nil
	}
	close(l.done)
	l.loop.Wait()
	l.mu.Lock()
	list := l.ports
	l.ports = nil
	l.mu.Unlock()
	for _, t := range list {
		t.control.do(func(m *cm.CM, _ cm.Instant) {
			m.Unlisten(l.service)
			delete(t.control.services, l.service)
			t.control.setHalfOpenLimit()
		})
	}
	for waiting := true; waiting; {
		select {
		case r := <-l.ready:
			_ = r.refuse(mad.RejServiceID, nil)
		default:
			waiting = false
		}
	}
	for _, t := range list {
		t.release()
	}
	return nil
}

// A connRequest is a received REQ or SIDR_REQ.
type connRequest struct {
	c      *control
	kind   rnic.Service
	k      *cm.Conn
	remote cm.QP
	source netip.AddrPort
	from   uint16 // UDP source port of the request

	answered  sync.Once // the port is released
	abandon   sync.Once
	abandoned chan struct{}
	private   []byte
}

// PrivateData returns the peer ULP's data, zero-padded to the field's size.
func (r *connRequest) PrivateData() []byte { return r.private }

// RemoteAddr returns the peer's address, with its stated port. A client on this host may use a
// spare loopback address, because another process has the port of its own address. For that client
// RemoteAddr returns the address that the client called. Over TCP the client has that address, too,
// so records and permissions by address apply to all its connections.
func (r *connRequest) RemoteAddr() net.Addr {
	if spareNet.Contains(r.source.Addr()) {
		return net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.c.t.key.Addr(), r.source.Port()))
	}
	return net.UDPAddrFromAddrPort(r.source)
}

// NetConn is nil: all connections of a port share a socket.
func (r *connRequest) NetConn() net.Conn { return nil }

// Sockets returns our socket and the request's source socket, not the peer's RoCE port, to which
// the answer goes. On this host any user can send from an address bound by another user's socket,
// but not from its port.
func (r *connRequest) Sockets() (local, remote netip.AddrPort) {
	return r.c.t.key, netip.AddrPortFrom(r.c.t.zoned(r.k.Peer()), r.from)
}

// Abandon ends accept's wait for an RTU.
func (r *connRequest) Abandon() { r.abandon.Do(func() { close(r.abandoned) }) }

// IRD returns the number of concurrent RDMA Reads that the peer takes from us.
func (r *connRequest) IRD() int { return int(r.remote.ResponderResources) }

// ORD returns the number of RDMA Reads that the peer wants to have outstanding.
func (r *connRequest) ORD() int { return int(r.remote.InitiatorDepth) }

// Accept answers the request, and returns after the peer's confirmation: before the confirmation
// the peer's address is unproven, and the QP takes no packets.
func (r *connRequest) Accept(qp *rnic.QP, cp rnic.ConnParams) error {
	defer r.answered.Do(r.c.t.release)
	e, ok := rnic.EndpointOf(qp).(*endpoint)
	var b *binding
	var err error
	switch {
	case !ok:
		err = errForeignQP
	case e.cfg.Service != r.kind:
		err = fmt.Errorf("roce: the request is for a QP of %v, and this one is of %v", r.kind, e.cfg.Service)
	case len(cp.PrivateData) > privateDataMax:
		err = errPrivateData
	case r.kind == rnic.UD && qp.State() == rnic.StateRTS:
		if b = e.bound.Load(); b.port != r.c.t {
			err = errOtherAddress
		}
	case qp.State() != rnic.StateIdle:
		err = rnic.ErrState
	default:
		b, err = e.bind(r.c.t.key.Addr(), UDPQKey)
	}
	if err != nil {
		_ = r.refuse(mad.RejNoQP, nil)
		return err
	}
	if r.kind == rnic.UD {
		err = r.answerSIDR(e, b, cp.PrivateData)
	} else {
		err = r.accept(e, b, &cp)
	}
	if err != nil {
		e.unbind()
	}
	return err
}

// accept sends the REP and waits for the RTU, which never comes if the request was forged.
func (r *connRequest) accept(e *endpoint, b *binding, cp *rnic.ConnParams) error {
	mtu := r.remote.PathMTU.Bytes()
	peer := b.port.zoned(r.k.Peer())
	if most := e.p.paths.mostTo(b.port, peer); !e.p.paths.admits(peer, mtu, most) {
		r.refuseMTU(most)
		return fmt.Errorf("%w: the peer requests a path MTU of %d, and the path takes %d", errTooLong, mtu, most)
	}
	s := e.newSession(cp, peer, mtu)
	s.attrs.DestQPN, s.attrs.SQPSN, s.attrs.PeerPort = r.remote.QPN, r.remote.PSN, r.c.peerPort(r.from)
	s.attrs.RNRRetry, s.attrs.ObeyCredits = r.remote.RNRRetryCount, sendsCredits(&r.remote)
	s.ord = min(s.ord, int(r.remote.ResponderResources))
	s.ird = min(s.ird, max(1, int(r.remote.InitiatorDepth)))
	s.private = r.private
	l, err := newCMLink(e, b, s)
	if err != nil {
		_ = r.refuse(mad.RejNoQP, nil)
		return err
	}
	l.k = r.k
	l.awaitsRTU.Store(true)
	e.accepting.Store(l) // lets packets find the link
	defer e.accepting.Store(nil)
	r.c.do(func(m *cm.CM, at cm.Instant) {
		if err = m.Accept(at, r.k, e.local(b, s, mtu), cp.PrivateData); err == nil {
			l.k.Owner = l
		}
	})
	if err != nil {
		b.port.release() // held by the link
		return err
	}
	select {
	case <-l.made: // the CM times out eventually
	case <-r.abandoned:
		l.leave()
		<-l.made
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return l.err
}

// Reject rejects the request, with private data for the peer's ULP.
func (r *connRequest) Reject(privateData []byte) error { return r.refuse(mad.RejConsumer, privateData) }

// refuseMTU rejects the request's path MTU, and names the largest acceptable one.
func (r *connRequest) refuseMTU(most int) {
	// An error means that the request has ended.
	r.c.do(func(m *cm.CM, at cm.Instant) { _ = m.RejectMTU(at, r.k, mtuCode(most)) })
	r.answered.Do(r.c.t.release)
}

func (r *connRequest) refuse(why mad.Reason, private []byte) (err error) {
	r.c.do(func(m *cm.CM, at cm.Instant) {
		if r.kind == rnic.UD {
			err = m.Answer(at, r.k, statuses[why], 0, 0, private)
		} else {
			err = m.Reject(at, r.k, why, private)
		}
	})
	r.answered.Do(r.c.t.release)
	return err
}
