// Peers that send anything, and peers that do nothing.

package rpcrdma

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A rejecter refuses or drops every call but NULL.
type rejecter struct{ n atomic.Int64 }

func (s *rejecter) ServeRPC(r *Request) {
	if len(r.Msg.Stream) == 12 && r.Msg.Stream[0] == 0xee {
		_ = r.Reply(replyTo(r))
		return
	}
	if s.n.Add(1)%2 == 0 {
		r.Drop()
		return
	}
	_ = r.RejectChunks()
}

// Whatever octets a message has, the connection goes on, or ends by a fault of
// RDMA; nothing panics, hangs or is lost.
func FuzzInbound(f *testing.F) {
	for _, g := range goldenHeaders {
		f.Add(octets(f, g.wire))
		f.Add(append(octets(f, g.wire), octets(f, g.wire)[:4]...))
	}
	for i := range 4 {
		f.Add(words(7, 1, 1, i, 0, 0, 0, 7, 0, 1))
	}
	var p *rawPeer
	var c *Conn
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4096 {
			return
		}
		if p == nil {
			p, c = rawRequester(detached{t}, Config{Credits: grant, Handler: &rejecter{}, MaxPull: 1 << 16}, r1)
		}
		p.t = t
		p.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{b}})
		xid := 0xee000000 | nextXID.Add(1)
		null := words(xid, 1, 1, 0, 0, 0, 0, xid, 0, procNull) // fails where b has ended the connection
		p.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{null}})
		for {
			msg, err := p.next()
			if err != nil {
				<-c.Done()
				checkHome(t, c)
				p = nil
				return
			}
			var h Header
			if err := h.Parse(msg); err != nil {
				t.Fatalf("%x answered to %x", msg, b)
			}
			if h.XID == xid && h.Proc == ProcMsg {
				return
			}
		}
	})
}

// detached is a test whose Cleanup is left to the end of the process.
type detached struct{ *testing.T }

func (detached) Cleanup(func())           {}
func (detached) Context() context.Context { return context.Background() }

// A muteProxy forwards TCP both ways until it is told to forget the answers.
func muteProxy(t *testing.T, to string, mute *atomic.Bool) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		in, err := l.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		out, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer out.Close()
		go io.Copy(out, in)
		buf := make([]byte, 1<<16)
		for {
			n, err := out.Read(buf)
			if err != nil {
				return
			}
			if !mute.Load() {
				in.Write(buf[:n])
			}
		}
	}()
	return l.Addr().String()
}

// A peer that lets our RDMA Reads stand is cut off, and the budget is free again.
func TestStalledPeer(t *testing.T) {
	dev := rnic.Open(rnic.DeviceConfig{})
	l, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	budget := NewBudget(4 << 20)
	accepted := make(chan *Conn, 1)
	go func() {
		defer close(accepted)
		if req, err := l.Accept(); err == nil {
			if s, err := Accept(dev, req, Config{Handler: &echoServer{}, Budget: budget, stall: 2e6}); err == nil {
				accepted <- s
			}
		}
	}()
	var mute atomic.Bool
	c, err := Dial(t.Context(), dev, muteProxy(t, l.Addr().String(), &mute), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := <-accepted
	if s == nil {
		t.Fatal("not accepted")
	}
	if err := doNull(c); err != nil {
		t.Fatal(err)
	}
	mute.Store(true)
	k := c.NewCall()
	e := begin(k, procWrite)
	e.Item(make([]byte, 1<<20))
	setMsg(k, e)
	d := start(t.Context(), c, k)
	<-s.Done()
	if !errors.Is(s.Err(), errStalled) {
		t.Error(s.Err())
	}
	if budget.Free() != 4<<20 {
		t.Errorf("%d octets free", budget.Free())
	}
	if err := <-d.done; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	k.Release()
	checkHome(t, c, s)
}
