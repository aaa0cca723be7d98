// The connections of a server: how many there may be, and which has to make room.

package transport

import (
	"container/list"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// A connection that has made no call for idleAge may have to make room for a
// new one; NFS clients reconnect by themselves. idleScan is how often such are
// looked for at most.
const (
	idleAge    = 2 * time.Minute
	idleScan   = time.Second
	minLeaving = 16 // this number may be on their way out at once, or a quarter of all
)

// A serverConn is one connection of a Server.
type serverConn interface {
	// drain takes no further calls and returns when all that were taken have been answered.
	drain()
	// close ends the connection at once.
	close()
	// describe adds what the connection itself knows.
	describe(i *ConnInfo)
	// abort begins to end the connection and does not wait.
	abort()
	usage() *usage
}

// usage is what a connection has been good for.
type usage struct {
	// Written where calls come in, which is one goroutine at a time.
	calls atomic.Uint64 // that have come
	in    atomic.Uint64 // bytes of their messages
	last  atomic.Int64  // when the newest came, in nanoseconds since epoch

	_   [64]byte // of the cache, since replies leave from other processors
	out atomic.Uint64

	opened time.Time // set once, by add

	// Guarded by Server.mu.
	host    *host
	fresh   *list.Element // in Server.fresh
	leaving bool
	seen    uint64    // calls, when it was last looked at
	since   time.Time // since when there were as many
}

// sent counts a reply of n bytes, or several that leave together.
func (u *usage) sent(n int) { u.out.Add(uint64(n)) }

// A host is where connections come from: an IPv4 address, or the /64 of an IPv6 address,
// which one host has to itself. Guarded by Server.mu.
type host struct {
	prefix  netip.Prefix
	conns   int       // those of Server.conns that are not leaving
	scanned time.Time // when its connections were looked through for idle ones
}

const hostBits6 = 64

// hostPrefix is the host that an address is of; not valid where addr is not.
func hostPrefix(addr netip.Addr) netip.Prefix {
	bits := addr.BitLen()
	if addr.Is6() {
		bits = hostBits6
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}

// host is that of remote, or one of no other connection where the network has no addresses.
func (s *Server) host(remote net.Addr) *host {
	prefix := hostPrefix(addrOf(remote))
	if !prefix.IsValid() {
		return &host{}
	}
	if h := s.hosts[prefix]; h != nil {
		return h
	}
	return &host{prefix: prefix}
}

// count notes one more call, whose message has n bytes.
func (s *Server) count(c serverConn, n int) {
	u := c.usage()
	u.in.Add(uint64(n))
	u.last.Store(int64(time.Since(epoch)))
	if u.calls.Add(1) != 1 {
		return
	}
	s.mu.Lock()
	s.settle(u)
	s.mu.Unlock()
}

// settle takes a connection out of those that have made no call. The caller holds mu.
func (s *Server) settle(u *usage) {
	if u.fresh != nil {
		s.fresh.Remove(u.fresh)
		u.fresh = nil
	}
}

// add registers a connection, unless there are too many or the server is
// closing. At the limit another one makes room if it is of no use, so that
// peers who connect and do nothing cannot keep others out; at the limit of its
// host, another one of that host.
func (s *Server) add(c serverConn, remote net.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	h := s.host(remote)
	if s.guests != nil && !s.guests[h.prefix] {
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
	u.host, u.fresh, u.opened = h, s.fresh.PushBack(c), now()
	if h.conns++; h.prefix.IsValid() {
		s.hosts[h.prefix] = h
	}
	s.wg.Add(1)
	s.observeConn(c, +1)
	return true
}

// makeRoom has one connection leave, of any host or of one: of those that never
// made a call the oldest, else one that has made none for long. The caller holds mu.
func (s *Server) makeRoom(of *host) bool {
	if s.leaving >= max(s.cfg.MaxConns/4, minLeaving) { // they take their time: do not add to them
		return false
	}
	out := s.longestFresh(of)
	if out == nil {
		out = s.idlest(time.Now(), of)
	}
	if out == nil {
		return false
	}
	u := out.usage()
	s.settle(u)
	u.leaving = true
	s.leaving++
	s.vacate(u.host)
	s.log.Warn("idle connection closed to make room for another", "max", s.cfg.MaxConns)
	out.abort()
	return true
}

// vacate notes that a connection of h is gone or about to be.
func (s *Server) vacate(h *host) {
	if h.conns--; h.conns == 0 {
		delete(s.hosts, h.prefix)
	}
}

// longestFresh is the oldest connection that never made a call, or nil.
func (s *Server) longestFresh(of *host) serverConn {
	for e := s.fresh.Front(); e != nil; e = e.Next() {
		if c := e.Value.(serverConn); of == nil || c.usage().host == of {
			return c
		}
	}
	return nil
}

// idlest is a connection, of any host or of one, that has made no call for idleAge,
// as far as was seen at this and earlier looks, or nil.
func (s *Server) idlest(now time.Time, of *host) (idlest serverConn) {
	scanned := &s.scanned
	if of != nil { // who looks often among its own does not look for all
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

// remove forgets a connection that has ended.
func (s *Server) remove(c serverConn) {
	s.mu.Lock()
	u := c.usage()
	s.settle(u)
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

// A peer is where a connection's calls come from.
type peer struct {
	addr   netip.Addr // without the port; not valid for networks that have none
	owner  Owner      // set before the first call
	origin *origin
	creds  credCache
	memo   *atomic.Value // Call.Memo; nil where calls of several clients come by one socket
}

func (p *peer) init(remote net.Addr) {
	p.addr = addrOf(remote)
	p.origin = &origin{remote: addrPortOf(remote)}
}

// client is who the peer is when workers are shared out.
func (p *peer) client() clientKey { return clientKey{hostPrefix(p.addr), p.owner} }

// addrOf is the address of a peer; not valid for networks that have none. What counts and remembers
// calls by address has no bounds there, and takes no copy of a call for one.
func addrOf(remote net.Addr) netip.Addr { return addrPortOf(remote).Addr().Unmap() }

// addrPortOf is the address and port of an end; not valid for networks that have none.
func addrPortOf(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort()
	case *net.UDPAddr: // RoCE
		return a.AddrPort()
	}
	return netip.AddrPort{}
}
