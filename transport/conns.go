// The connections of a server: how many there may be, and which has to make room.

package transport

import (
	"container/list"
	"net"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
)

// A connection that has made no call for idleAge may have to make room for a
// new one; NFS clients reconnect by themselves. idleScan is how often such are
// looked for at most.
const (
	idleAge    = 2 * time.Minute
	idleScan   = time.Second
	minLeaving = 16 // so many may be on their way out at once, or a quarter of all
)

// A serverConn is one connection of a Server.
type serverConn interface {
	// drain takes no further calls and returns when all that were taken have been answered.
	drain()
	// close ends the connection at once.
	close()
	// abort begins to end the connection and does not wait.
	abort()
	usage() *usage
}

// usage is what a connection has been good for.
type usage struct {
	calls atomic.Uint32 // that have come, modulo 2^32

	// Guarded by Server.mu.
	fresh   *list.Element // in Server.fresh
	leaving bool
	seen    uint32    // calls, when it was last looked at
	since   time.Time // since when there were as many
}

// count notes one more call.
func (s *Server) count(c serverConn) {
	u := c.usage()
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
// peers who connect and do nothing cannot keep others out.
func (s *Server) add(c serverConn, remote net.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	if len(s.conns)-s.leaving >= s.cfg.MaxConns && !s.makeRoom() {
		s.log.Warn("connection refused: there are too many", logrus.Fields{"peer": remote, "max": s.cfg.MaxConns})
		return false
	}
	s.conns[c] = true
	c.usage().fresh = s.fresh.PushBack(c)
	s.wg.Add(1)
	s.observeConn(c, +1)
	return true
}

// makeRoom has one connection leave: of those that never made a call the
// oldest, else one that has made none for long. The caller holds mu.
func (s *Server) makeRoom() bool {
	if s.leaving >= max(s.cfg.MaxConns/4, minLeaving) { // they take their time: do not add to them
		return false
	}
	var out serverConn
	if e := s.fresh.Front(); e != nil {
		out = e.Value.(serverConn)
	} else if out = s.idlest(time.Now()); out == nil {
		return false
	}
	u := out.usage()
	s.settle(u)
	u.leaving = true
	s.leaving++
	s.log.Warn("idle connection closed to make room for another", logrus.Fields{"max": s.cfg.MaxConns})
	out.abort()
	return true
}

// idlest is a connection that has made no call for idleAge, as far as was seen
// at this and earlier looks, or nil.
func (s *Server) idlest(now time.Time) (idlest serverConn) {
	if now.Sub(s.scanned) < idleScan {
		return nil
	}
	s.scanned = now
	oldest := now.Add(-idleAge)
	for c := range s.conns {
		u := c.usage()
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
	}
	delete(s.conns, c)
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
