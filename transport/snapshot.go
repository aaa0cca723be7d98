// A server's current connections and their traffic, and draining.

package transport

import (
	"net"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/clock"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// Traffic counts whole RPC messages with headers and data, including refused calls.
type Traffic struct {
	Calls   uint64
	In, Out uint64 // bytes of calls, and of replies
}

// add adds a connection's traffic so far.
func (t *Traffic) add(u *usage) {
	t.Calls += u.calls.Load()
	t.In += u.in.Load()
	t.Out += u.out.Load()
}

// A ConnInfo describes a connection at one moment.
type ConnInfo struct {
	Traffic
	Remote   net.Addr
	Provider string        // RDMA provider's name for rnic.Open; "" over TCP
	Opened   time.Time     // when the server accepted the connection
	Idle     time.Duration // since the newest call, or since Opened without one
	RDMA     *rpcrdma.Info // nil over TCP, and before an RDMA connection is accepted
	Channel  Channel       // the connection's protection
	Memo     any           // the connection's Call.Memo; nil: none
}

// Conns describes the current connections, in no order, and the traffic of ended ones. It blocks
// calls only while copying a list.
func (s *Server) Conns() (list []ConnInfo, ended Traffic) {
	s.mu.Lock()
	conns := make([]serverConn, 0, len(s.conns))
	list = make([]ConnInfo, len(s.conns))
	for c := range s.conns {
		list[len(conns)].Opened = c.usage().opened
		conns = append(conns, c)
	}
	ended = s.ended
	s.mu.Unlock()
	for i, c := range conns {
		u := c.usage()
		list[i].add(u)
		last := list[i].Opened
		if list[i].Calls > 0 {
			last = clock.At(time.Duration(u.last.Load()))
		}
		list[i].Idle = max(0, time.Since(last))
		c.describe(&list[i])
	}
	return list, ended
}

// describe implements serverConn.
func (t *tcpConn) describe(i *ConnInfo) {
	i.Remote, i.Memo, i.Channel = t.remote, t.peer.memo.Load(), t.peer.channel()
}

// describe implements serverConn.
func (r *rdmaConn) describe(i *ConnInfo) {
	i.Remote, i.Memo, i.Provider, i.Channel = r.remote, r.peer.memo.Load(), r.provider, r.peer.channel()
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	if conn != nil {
		info := conn.Info()
		i.RDMA = &info
	}
}

// Drain makes the server refuse connections from new clients (on), or accept all again. Hosts
// with a connection now may still open others, because a connected client uses several and
// reconnects by itself.
func (s *Server) Drain(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !on:
		s.admittedHosts = nil
	case s.admittedHosts == nil:
		s.admittedHosts = map[netip.Prefix]bool{}
		for prefix := range s.hosts {
			s.admittedHosts[prefix] = true
		}
	}
}

// Draining reports whether the server refuses new clients.
func (s *Server) Draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admittedHosts != nil
}
