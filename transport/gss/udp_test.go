// RPCSEC_GSS over UDP: a retransmission has a new sequence number, a lost message about a context
// is replaced, and late replies to earlier transmissions are ignored.

package gss

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
)

// A lateConn keeps the second reply, the first after the context's creation, until the third comes,
// and delivers it before the third.
type lateConn struct {
	net.Conn
	replies int
	late    []byte
	next    []byte
}

func (c *lateConn) Read(b []byte) (int, error) {
	if c.next != nil {
		n := copy(b, c.next)
		c.next = nil
		return n, nil
	}
	for {
		n, err := c.Conn.Read(b)
		if err != nil {
			return n, err
		}
		switch c.replies++; c.replies {
		case 2:
			c.late = bytes.Clone(b[:n])
		case 3:
			c.next = bytes.Clone(b[:n])
			return copy(b, c.late), nil
		default:
			return n, nil
		}
	}
}

// TestRetransmissionOverUDP: a non-idempotent call with a late reply runs once, with each service,
// and its second transmission gets the reply.
func TestRetransmissionOverUDP(t *testing.T) {
	for _, service := range services {
		r := newRig(t, tcp, nil)
		pc, err := transport.ListenUDP("127.0.0.1:0")
		must.Succeed(t, err)
		served := make(chan error, 1)
		go func() { served <- r.server.ServeUDP(pc) }()
		var conn *lateConn
		c, err := transport.DialUDP(bg, pc.LocalAddr().String(), transport.ClientConfig{Resend: 50 * time.Millisecond, CallTimeout: transport.Hard,
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := new(net.Dialer).DialContext(ctx, network, addr)
				conn = &lateConn{Conn: nc}
				return conn, err
			}})
		must.Succeed(t, err)
		runs := words{0}
		if err := c.CallAs(bg, r.users().Auth("alice", service), testProc(tCount), words{0}, runs, nil, 0); err != nil || runs[0] != 1 || r.runs.Load() != 1 {
			t.Errorf("service %d: result %d of %d runs, %v; want 1", service, runs[0], r.runs.Load(), err)
		}
		if got, _ := r.last(); got.Principal != "alice@TEST" {
			t.Errorf("service %d: principal %q, want alice@TEST", service, got.Principal)
		}
		must.Succeed(t, c.Close())
		if conn.replies < 3 {
			t.Errorf("service %d: %d replies, want a reply to a retransmission", service, conn.replies)
		}
	}
}

// A lossyConn loses one reply.
type lossyConn struct {
	net.Conn
	replies, lost int
}

func (c *lossyConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil {
			return n, err
		}
		if c.replies++; c.replies != c.lost {
			return n, nil
		}
	}
}

// TestLostRepliesOverUDP: a call succeeds, and runs once, whichever reply is lost: the call's own,
// or one about its context.
func TestLostRepliesOverUDP(t *testing.T) {
	for lost := 1; lost <= 3; lost++ {
		r := newRig(t, tcp, nil)
		pc, err := transport.ListenUDP("127.0.0.1:0")
		must.Succeed(t, err)
		served := make(chan error, 1)
		go func() { served <- r.server.ServeUDP(pc) }()
		conn := &lossyConn{lost: lost}
		c, err := transport.DialUDP(bg, pc.LocalAddr().String(), transport.ClientConfig{Resend: 20 * time.Millisecond, CallTimeout: transport.Hard,
			Dial: func(ctx context.Context, network, addr string) (nc net.Conn, err error) {
				conn.Conn, err = new(net.Dialer).DialContext(ctx, network, addr)
				return conn, err
			}})
		must.Succeed(t, err)
		auth := r.users().Auth("alice", transport.ServiceIntegrity)
		for want := uint32(1); want <= 2; want++ {
			runs := words{0}
			if err := c.CallAs(bg, auth, testProc(tCount), words{0}, runs, nil, 0); err != nil || runs[0] != want {
				t.Errorf("reply %d is lost: result %d, %v; want %d", lost, runs[0], err, want)
			}
		}
		must.Succeed(t, c.Close())
		if conn.replies < 4 {
			t.Errorf("reply %d is lost: %d replies, want 4 or more", lost, conn.replies)
		}
	}
}
