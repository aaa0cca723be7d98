// A server's connections: their limits, and closing idle ones to make room.

package transport

import (
	"container/list"
	"encoding/asn1"
	"hash/maphash"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/clock"
)

// A drainer is a connection, or a socket of ServeUDP.
type drainer interface {
	// drain takes no further calls and returns when all taken ones have been answered.
	drain()
	// close ends the connection immediately.
	close()
}

// A serverConn is a Server's connection.
type serverConn interface {
	drainer
	// describe adds the connection's own information.
	describe(i *ConnInfo)
	// abort starts ending the connection without waiting.
	abort()
	usage() *usage
}

// usage counts a connection's calls and bytes.
type usage struct {
	// Written by the goroutine that receives calls, one at a time.
	calls atomic.Uint64 // received calls
	in    atomic.Uint64 // bytes of the received calls
	last  atomic.Int64  // arrival of the newest call, as clock.Elapsed

	_   [64]byte // a cache line apart, because other processors send replies
	out atomic.Uint64

	opened time.Time // set once, by add

	// Guarded by Server.mu.
	host    *host
	unused  *list.Element // in Server.unused
	leaving bool
	seen    uint64    // calls at the last scan
	since   time.Time // first scan with the number in seen
}

// sent counts a reply of n bytes, or several sent together.
func (u *usage) sent(n int) { u.out.Add(uint64(n)) }

// A host is a source of connections: an IPv4 address, or an IPv6 address's /64, which usually
// belongs to one host. Guarded by Server.mu.
type host struct {
	prefix  netip.Prefix
	conns   int       // this host's Server.conns, without leaving ones
	scanned time.Time // last search for idle connections of this host
}

// hostPrefix returns an address's host prefix; invalid if addr is.
func hostPrefix(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = hostBits6
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}

// HostOf returns the host of a peer: its IPv4 address, or the /64 of its IPv6 address. Peers in
// networks without addresses have an invalid one, and count as one host.
func HostOf(remote net.Addr) netip.Prefix { return hostPrefix(addrOf(remote)) }

// host returns remote's host, or an unshared one if the network has no addresses.
func (s *Server) host(remote net.Addr) *host {
	prefix := HostOf(remote)
	if !prefix.IsValid() {
		return &host{}
	}
	if h := s.hosts[prefix]; h != nil {
		return h
	}
	return &host{prefix: prefix}
}

// count counts a call with a message of n bytes.
func (s *Server) count(c serverConn, n int) {
	u := c.usage()
	u.in.Add(uint64(n))
	u.last.Store(int64(clock.Elapsed()))
	if u.calls.Add(1) != 1 {
		return
	}
	s.mu.Lock()
	s.markUsed(u)
	s.mu.Unlock()
}

// markUsed removes a connection from those without a call. The caller holds mu.
func (s *Server) markUsed(u *usage) {
	if u.unused != nil {
		s.unused.Remove(u.unused)
		u.unused = nil
	}
}

// add registers a connection, unless there are too many or the server is closing. At the limit add
// closes an idle connection instead, so that idle peers cannot keep others out; at the host's
// limit, an idle connection from that host.
func (s *Server) add(c serverConn, remote net.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	h := s.host(remote)
	if s.admittedHosts != nil && !s.admittedHosts[h.prefix] {
		s.refused.count(refusedDraining)
		s.log.Warn("connection refused: the server takes no new clients (it is being drained)", "peer", remote)
		return false
	}
	if h.conns >= s.cfg.MaxConnsPerHost && !s.makeRoom(h) {
		s.refused.count(refusedHostLimit)
		s.log.Warn("connection refused: there are too many from its address", "peer", remote, "max", s.cfg.MaxConnsPerHost)
		return false
	}
	if len(s.conns)-s.leaving >= s.cfg.MaxConns && !s.makeRoom(nil) {
		s.refused.count(refusedLimit)
		s.log.Warn("connection refused: there are too many", "peer", remote, "max", s.cfg.MaxConns)
		return false
	}
	s.conns[c] = true
	u := c.usage()
	u.host, u.unused, u.opened = h, s.unused.PushBack(c), now()
	if h.conns++; h.prefix.IsValid() {
		s.hosts[h.prefix] = h
	}
	s.wg.Add(1)
	s.observeConn(c, +1)
	return true
}

// makeRoom closes one connection of the given host, or of any host: the oldest without any call, or
// one that has been idle for long. The caller holds mu.
func (s *Server) makeRoom(of *host) bool {
	// Closing takes time: do not add more.
	if s.leaving >= max(s.cfg.MaxConns/4, minLeaving) {
		return false
	}
	out := s.oldestUnused(of)
	if out == nil {
		out = s.idlest(time.Now(), of)
	}
	if out == nil {
		return false
	}
	u := out.usage()
	s.markUsed(u)
	u.leaving = true
	s.leaving++
	s.vacate(u.host)
	s.log.Warn("idle connection closed to make room for another", "max", s.cfg.MaxConns)
	out.abort()
	return true
}

// vacate counts one connection less for h.
func (s *Server) vacate(h *host) {
	if h.conns--; h.conns == 0 {
		delete(s.hosts, h.prefix)
	}
}

// oldestUnused returns the oldest connection without any call, or nil.
func (s *Server) oldestUnused(of *host) serverConn {
	for e := s.unused.Front(); e != nil; e = e.Next() {
		if c := e.Value.(serverConn); of == nil || c.usage().host == of {
			return c
		}
	}
	return nil
}

// idlest returns a connection, of any host or of the given one, without a call for idleAge
// according to this and earlier scans, or nil.
func (s *Server) idlest(now time.Time, of *host) (idlest serverConn) {
	scanned := &s.scanned
	if of != nil { // frequent scans for one host must not replace scans for all hosts
		scanned = &of.scanned
	}
	if now.Sub(*scanned) < idleScan {
		return nil
	}
	*scanned = now
	oldest := now.Add(-idleAge)
	for c := range s.conns {
		u := c.usage()
		if of != nil && u.host != of {
			continue
		}
		n := u.calls.Load()
		switch {
		case u.leaving:
		case u.since.IsZero() || n != u.seen:
			u.seen, u.since = n, now
		case !u.since.After(oldest):
			idlest, oldest = c, u.since
		}
	}
	return idlest
}

// remove forgets an ended connection.
func (s *Server) remove(c serverConn) {
	s.mu.Lock()
	u := c.usage()
	s.markUsed(u)
	if u.leaving {
		s.leaving--
	} else {
		s.vacate(u.host)
	}
	delete(s.conns, c)
	s.ended.add(u)
	s.mu.Unlock()
	s.observeConn(c, -1)
	s.wg.Done()
}

func (s *Server) observeConn(c serverConn, delta int) {
	if s.observer != nil {
		_, rdma := c.(*rdmaConn)
		s.observer.Connection(rdma, delta)
	}
}

// A peer is the source of a connection's calls.
type peer struct {
	addr   netip.Addr // without port; invalid if the network has no addresses
	owner  Owner      // set before the first call
	origin *origin
	creds  credCache
	memo   *atomic.Value // Call.Memo; nil if several clients share a socket
	// secure is set by a handshake, before the first call over TLS; nil: in clear.
	secure atomic.Pointer[Channel]
	cert   atomic.Uint64 // the result of certificate, computed once; 0: not yet
}

// channel returns the connection's present protection.
func (p *peer) channel() Channel {
	if c := p.secure.Load(); c != nil {
		return *c
	}
	return Channel{}
}

// subjectAltName is the number of the extension with a certificate's names (RFC 5280 §4.2.1.6).
var subjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

// certificate returns a hash of the names in the client's verified certificate, and of its issuer;
// 0: it has none. A renewed certificate has the same names, so a client that reconnects with it
// repeats its calls. The result is computed once, so all calls for a peer have one seed.
func (p *peer) certificate(seed maphash.Seed) uint64 {
	s := p.channel().TLS
	if s == nil || len(s.VerifiedChains) == 0 {
		return 0
	}
	if sum := p.cert.Load(); sum != 0 {
		return sum
	}
	var h maphash.Hash
	h.SetSeed(seed)
	leaf := s.VerifiedChains[0][0]
	_, _ = h.Write(leaf.RawIssuer) // DER has lengths, so the parts need no separators
	_, _ = h.Write(leaf.RawSubject)
	for _, e := range leaf.Extensions {
		if e.Id.Equal(subjectAltName) {
			_, _ = h.Write(e.Value)
		}
	}
	sum := max(h.Sum64(), 1)
	p.cert.Store(sum)
	return sum
}

func (p *peer) init(remote net.Addr) {
	p.addr = addrOf(remote)
	p.origin = &origin{remote: addrPortOf(remote)}
}

// client identifies the peer for sharing out workers.
func (p *peer) client() clientKey { return clientKey{hostPrefix(p.addr), p.owner} }

// addrOf returns a peer's address, invalid if the network has no addresses. Limits and caches by
// address do not apply to invalid addresses.
func addrOf(remote net.Addr) netip.Addr { return addrPortOf(remote).Addr().Unmap() }

// addrPortOf returns an end's address and port, invalid if the network has no addresses.
func addrPortOf(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort()
	case *net.UDPAddr: // RoCE
		return a.AddrPort()
	}
	return netip.AddrPort{}
}
