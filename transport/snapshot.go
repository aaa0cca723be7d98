// What goes on in a server at one moment: its connections and what they have moved, and whether it
// takes new clients.

package transport

import (
	"net"
	"net/netip"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// Traffic is what connections have moved: whole RPC messages, with their headers and data, calls
// that were refused included.
type Traffic struct {
	Calls   uint64
	In, Out uint64 // bytes of calls, and of replies
}

// add adds what a connection has moved so far.
func (t *Traffic) add(u *usage) {
	t.Calls += u.calls.Load()
	t.In += u.in.Load()
	t.Out += u.out.Load()
}

// A ConnInfo is a connection at one moment.
type ConnInfo struct {
	Traffic
	Remote   net.Addr
	Provider string        // of RDMA: its name, as for rnic.Open; "" over TCP
	Opened   time.Time     // when the server took it in
	Idle     time.Duration // since the newest call came, or since Opened where none has
	RDMA     *rpcrdma.Info // nil over TCP, and until an RDMA connection has been accepted
	Memo     any           // what Call.Memo has of it; nil: nothing
}

// Conns describes the connections that there are, in no order, and what those have moved that have
// ended. Nothing that serves calls waits for it for longer than it takes to copy a list.
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
			last = epoch.Add(time.Duration(u.last.Load()))
		}
		list[i].Idle = max(0, time.Since(last))
		c.describe(&list[i])
	}
	return list, ended
}

// describe implements serverConn.
func (t *tcpConn) describe(i *ConnInfo) {
	i.Remote, i.Memo = t.remote, t.peer.memo.Load()
}

// describe implements serverConn.
func (r *rdmaConn) describe(i *ConnInfo) {
	i.Remote, i.Memo, i.Provider = r.remote, r.peer.memo.Load(), r.provider
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	if conn != nil {
		info := conn.Info()
		i.RDMA = &info
	}
}

// Drain has the server take no connections of new clients (on), or again those of all. The hosts
// that have a connection now can go on to open others, since a client that is connected uses
// several and connects again by itself.
func (s *Server) Drain(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !on:
		s.guests = nil
	case s.guests == nil:
		s.guests = map[netip.Prefix]bool{}
		for prefix := range s.hosts {
			s.guests[prefix] = true
		}
	}
}

// Draining reports whether the server takes no new clients.
func (s *Server) Draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guests != nil
}
