// Limits of connections, for one host and for all.

package transport

import (
	"fmt"
	"github.com/nfsrdma/nfsrdma/test/must"
	"net"
	"testing"
	"time"
)

// A fakeConn is a connection that only leaves on request.
type fakeConn struct {
	used    usage
	aborted bool
}

func (c *fakeConn) drain()        {}
func (c *fakeConn) close()        {}
func (c *fakeConn) abort()        { c.aborted = true }
func (c *fakeConn) usage() *usage { return &c.used }

func (c *fakeConn) describe(*ConnInfo) {}

// A connServer is a Server and its connections.
type connServer struct {
	t *testing.T
	s *Server
}

// enter adds a connection from ip; nil if refused.
func (h connServer) enter(ip string) *fakeConn {
	c := &fakeConn{}
	if !h.s.add(c, &net.TCPAddr{IP: net.ParseIP(ip), Port: 1000}) {
		return nil
	}
	return c
}

// used adds a connection from ip that makes a call.
func (h connServer) used(ip string) *fakeConn {
	h.t.Helper()
	c := h.enter(ip)
	if c == nil {
		h.t.Fatalf("%s was refused", ip)
	}
	h.s.count(c, 0)
	return c
}

func newConnServer(t *testing.T, all, each int) connServer {
	return connServer{t, NewServer(ServerConfig{MaxConns: all, MaxConnsPerHost: each})}
}

// A host that fills its share displaces only its own connections.
func TestMaxConnsPerHost(t *testing.T) {
	h := newConnServer(t, 100, 3)
	other := h.enter("192.0.2.1")
	first := h.used("192.0.2.2")
	second, third := h.enter("192.0.2.2"), h.enter("192.0.2.2")
	if h.enter("192.0.2.2") == nil || !second.aborted || third.aborted || first.aborted || other.aborted {
		t.Error("not the oldest without a call made room")
	}
	h.s.count(third, 0)
	h.used("192.0.2.2") // displaces the fourth
	for range 5 {
		if h.enter("192.0.2.2") != nil {
			t.Error("a connection over the limit of its host")
		}
	}
	must.Equal(t, "first.aborted", first.aborted, false)
	must.Equal(t, "third.aborted", third.aborted, false)
	must.Equal(t, "other.aborted", other.aborted, false)
	h.s.remove(first)
	if h.enter("192.0.2.2") == nil {
		t.Error("the place of one that ended is lost")
	}
}

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"2001:db8::1", "2001:db8::ffff:1", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
	} {
		h := newConnServer(t, 100, 1)
		h.used(c.a)
		if refused := h.enter(c.b) == nil; refused != c.same {
			t.Errorf("%s and %s are one host: %t", c.a, c.b, refused)
		}
	}
	h := newConnServer(t, 100, 1)
	for range 3 {
		if c := (&fakeConn{}); !h.s.add(c, &net.UnixAddr{Name: "@"}) {
			t.Error("a network without addresses has a host")
		}
	}
}

// Nothing is kept about hosts without connections.
func TestHostsAreForgotten(t *testing.T) {
	h := newConnServer(t, 10, 2)
	var all []*fakeConn
	for i := range 200 {
		if c := h.enter(fmt.Sprintf("192.0.2.%d", i)); c != nil {
			all = append(all, c)
		}
	}
	for _, c := range all {
		h.s.remove(c)
	}
	if len(all) < 10 {
		t.Fatalf("len(all): %v, want at least %v", len(all), 10)
	}
	must.Equal(t, "len(h.s.hosts)", len(h.s.hosts), 0)
	must.Equal(t, "h.s.leaving", h.s.leaving, 0)
	must.Equal(t, "len(h.s.conns)", len(h.s.conns), 0)
	must.Equal(t, "h.s.unused.Len()", h.s.unused.Len(), 0)
}

// A host's own scans do not postpone the scans through all connections.
func TestIdlestOfHost(t *testing.T) {
	h := newConnServer(t, 100, 1)
	mine, other := h.used("192.0.2.1"), h.used("192.0.2.2")
	host, now := mine.used.host, time.Now()
	h.s.idlest(now, host)
	h.s.idlest(now, nil)
	now = now.Add(idleAge)
	if c := h.s.idlest(now, host); c != mine {
		t.Errorf("%p, want %p", c, mine)
	}
	h.s.count(mine, 0)
	if c := h.s.idlest(now, nil); c != other {
		t.Errorf("%p, want %p", c, other)
	}
}
