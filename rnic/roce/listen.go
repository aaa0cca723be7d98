// Listening: a service on the ports of one address or of all, and the requests that wait for
// Accept.

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

// A listener is one service, on one port or more.
type listener struct {
	// set once
	p       *provider
	kind    rnic.Service
	service mad.ServiceID
	addr    net.Addr
	ready   chan *connRequest // as many as may wait
	done    chan struct{}

	loop sync.WaitGroup // followAddrs

	lacks map[netip.Addr]bool // unavailable addresses; owned by Listen, then by followAddrs

	mu     sync.Mutex // after control.mu
	ports  []*port    // guarded by mu, as is what follows
	closed bool
}

var (
	errListen  = errors.New("roce: the service is taken on this address by another listener of this process")
	errNoAddrs = errors.New("roce: this host has no address to listen at")
)

// Listen takes connection requests for the service of port, at one address of this host
// ("host:port"), or at all that it has (":port", all of IPv4 with "0.0.0.0:port"), also those that
// come or become free later: one at least has to be free. Ports of different services are different
// ones.
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

// followTime is how often it is looked whether the host has new addresses.
const followTime = 5 * time.Second

// followAddrs listens at addresses that come, or become free, until the listener is closed.
func (l *listener) followAddrs(all netip.Addr) {
	tick := time.NewTicker(followTime)
	defer tick.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-tick.C:
			_ = l.addAll(all) // those that could not be had are tried again
		}
	}
}

// addAll listens at all addresses of the host, those of IPv4 or all there are, but where it does
// already. It fails if it listens nowhere then; else the unavailable addresses are reported.
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
		case errors.Is(err, syscall.EADDRNOTAVAIL): // it is gone, or IPv6 still looks for duplicates
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

// report calls Options.Unserved, once for each change. Only one goroutine calls it.
func (l *listener) report(a netip.Addr, err error) {
	if l.p.opt.Unserved == nil || l.lacks[a] == (err != nil) {
		return
	}
	if l.lacks == nil {
		l.lacks = make(map[netip.Addr]bool)
	}
	l.lacks[a] = err != nil
	l.p.opt.Unserved(a, err)
}

func (l *listener) has(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.ports, func(t *port) bool { return t.key.Addr() == a })
}

// listenAddr is the address and the port of the service; unspecified is all addresses there are.
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

// hostAddrs is the addresses of this host: of IPv4, or all of them.
func hostAddrs(all netip.Addr) (list []netip.Addr, err error) {
	own, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for i := range own {
		addrs, _ := own[i].Addrs() // of one that is gone: none
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

// add listens on the port of one address.
func (l *listener) add(at netip.Addr) error {
	t, err := openPort(netip.AddrPortFrom(at, l.p.opt.Port), l.p.opt.Wrap)
	if err != nil {
		return err
	}
	t.control.do(func(m *cm.CM, at cm.Instant) {
		if err = m.Listen(l.service); err == nil {
			t.control.services[l.service] = l
			t.control.bound()
			t.control.keep(at, l.p.opt.State) // who is told of the end asks for a new connection at once
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

// offer gives a request to Accept, and reports false if too many wait. The caller holds the lock of
// c.
func (l *listener) offer(c *control, e *cm.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.ready) == cap(l.ready) {
		return false
	}
	ports.mu.Lock()
	c.t.users++ // until the request has had its answer, also if the listener is closed before
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

// Addr is the address, and the port of the service.
func (l *listener) Addr() net.Addr { return l.addr }

// Close stops listening; requests that wait are refused.
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
			t.control.bound()
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

// A connRequest is a peer that has sent a REQ.
type connRequest struct {
	c      *control
	kind   rnic.Service
	k      *cm.Conn
	remote cm.QP
	source netip.AddrPort
	from   uint16 // UDP port of the socket that sent it

	answered  sync.Once // it has given back its port
	abandon   sync.Once
	abandoned chan struct{}
	private   []byte
}

// PrivateData is what the peer's ULP sent along, and zeros to the end of the field.
func (r *connRequest) PrivateData() []byte { return r.private }

// RemoteAddr is the peer's address, with the port that the peer states. A client on this host with
// a spare loopback address, because the port of its own was taken, gets the address that it has
// called. It would have that address over TCP as well, so records and permissions by address hold
// for all its connections.
func (r *connRequest) RemoteAddr() net.Addr {
	if spareNet.Contains(r.source.Addr()) {
		return net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.c.t.key.Addr(), r.source.Port()))
	}
	return net.UDPAddrFromAddrPort(r.source)
}

// NetConn is nil: all connections of a port share a socket.
func (r *connRequest) NetConn() net.Conn { return nil }

// Sockets is our socket, and the one that has sent the request: not the one at the UDP port of
// RoCE, to which the answer goes. On this host everybody can send from an address that another
// one's socket is bound to, but not from its port.
func (r *connRequest) Sockets() (local, remote netip.AddrPort) {
	return r.c.t.key, netip.AddrPortFrom(r.c.t.zoned(r.k.Peer()), r.from)
}

// Abandon has accept wait no longer for an RTU.
func (r *connRequest) Abandon() { r.abandon.Do(func() { close(r.abandoned) }) }

// IRD is how many of our RDMA Reads the peer takes at once.
func (r *connRequest) IRD() int { return int(r.remote.ResponderResources) }

// ORD is how many RDMA Reads the peer wants to have outstanding.
func (r *connRequest) ORD() int { return int(r.remote.InitiatorDepth) }

// Accept answers the request and returns when the peer has confirmed that the connection is made:
// before that its address is not proven, and what comes from there is not taken.
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
		err = r.name(e, b, cp.PrivateData)
	} else {
		err = r.accept(e, b, &cp)
	}
	if err != nil {
		e.unbind()
	}
	return err
}

// accept sends the REP and waits for the RTU, which may never come: anybody can ask in another's
// name.
func (r *connRequest) accept(e *endpoint, b *binding, cp *rnic.ConnParams) error {
	mtu := r.remote.PathMTU.Bytes()
	peer := b.port.zoned(r.k.Peer())
	if most := e.p.paths.mostTo(b.port, peer); !e.p.paths.admits(peer, mtu, most) {
		r.refuseMTU(most)
		return fmt.Errorf("%w: the peer requests a path MTU of %d, and the path takes %d", errTooLong, mtu, most)
	}
	s := e.offer(cp, peer, mtu)
	s.attrs.DestQPN, s.attrs.SQPSN, s.attrs.PeerPort = r.remote.QPN, r.remote.PSN, r.c.onePort(r.from)
	s.attrs.RNRRetry, s.attrs.ObeyCredits = r.remote.RNRRetryCount, tellsCredits(&r.remote)
	s.ord = min(s.ord, int(r.remote.ResponderResources))
	s.ird = min(s.ird, max(1, int(r.remote.InitiatorDepth)))
	s.private = r.private
	l, err := newLink(e, b, s)
	if err != nil {
		_ = r.refuse(mad.RejNoQP, nil)
		return err
	}
	l.k = r.k
	l.waits.Store(true)
	e.asks.Store(l) // from here on packets find it
	defer e.asks.Store(nil)
	r.c.do(func(m *cm.CM, at cm.Instant) {
		if err = m.Accept(at, r.k, e.local(b, s, mtu), cp.PrivateData); err == nil {
			l.k.Owner = l
		}
	})
	if err != nil {
		b.port.release() // the link's
		return err
	}
	select {
	case <-l.made: // the CM gives up at some time
	case <-r.abandoned:
		l.leave()
		<-l.made
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return l.err
}

// Reject refuses the request, with bytes for the peer's ULP.
func (r *connRequest) Reject(privateData []byte) error { return r.refuse(mad.RejConsumer, privateData) }

// refuseMTU rejects the request because of its path MTU, and names the largest that is accepted.
func (r *connRequest) refuseMTU(most int) {
	r.c.do(func(m *cm.CM, at cm.Instant) { _ = m.RejectMTU(at, r.k, mtuCode(most)) }) // an error: it has ended
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
