// A full send queue: both roles wait for room in it, in order.

package rpcrdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A bareResponder is a peer at the end of a pipe without buffer: it takes bytes only on request.
type bareResponder struct {
	t  *testing.T
	nc net.Conn
	n  int // messages sent
	in io.Reader
}

// connect sets up a connection to a bareResponder, without CRCs.
func connect(t *testing.T, cfg Config) (*Conn, *bareResponder) {
	over, nc := net.Pipe()
	return connectOver(t, cfg, over, nc)
}

// connectOver sets up a connection to a bareResponder: ours over the end over, the peer's over nc.
func connectOver(t *testing.T, cfg Config, over, nc net.Conn) (*Conn, *bareResponder) {
	p := &bareResponder{t: t, nc: nc, in: nc}
	var started sync.WaitGroup
	started.Go(func() {
		b := make([]byte, 1024)
		io.ReadFull(p.nc, b[:20])
		io.ReadFull(p.nc, b[:binary.BigEndian.Uint16(b[18:])])
		pd := AppendPrivateData(nil, PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096})
		p.nc.Write(mpa.AppendFrame(nil, &mpa.Frame{Reply: true, Rev: 2, HasEnhanced: true, Enhanced: mpa.Enhanced{IRD: 16, ORD: 16}, PrivateData: pd}))
	})
	c, err := DialOver(t.Context(), iwarp.Open(rnic.DeviceConfig{CRC: rnic.CRCOff}), over, cfg)
	if err != nil {
		t.Fatalf("DialOver: %v", err)
	}
	started.Wait()
	t.Cleanup(func() { p.nc.Close(); c.Close() })
	return c, p
}

// next reads one FPDU and returns its DDP segment.
func (p *bareResponder) next() []byte {
	var n [2]byte
	io.ReadFull(p.in, n[:])
	b := make([]byte, mpa.FPDULen(int(binary.BigEndian.Uint16(n[:])))-2)
	if _, err := io.ReadFull(p.in, b); err != nil {
		p.t.Fatalf("ReadFull: %v", err)
	}
	return b[:binary.BigEndian.Uint16(n[:])]
}

// wantCall reads messages until a call with this XID.
func (p *bareResponder) wantCall(xid uint32) {
	for {
		if b := p.next(); len(b) > 22 && binary.BigEndian.Uint32(b[18:]) == xid {
			return
		}
	}
}

// reply answers a NULL call.
func (p *bareResponder) reply(xid uint32, credits int) {
	p.n++
	p.nc.Write(mpa.AppendFPDU(nil, false, []byte{0x41, 0x43}, words(0, 0, p.n, 0), nullReply(xid, credits)))
}

// fillSendQueue makes c post messages without a call until the queue has no room. p has then taken
// one byte, so the RNIC is blocked in a write.
func fillSendQueue(t *testing.T, c *Conn, p *bareResponder) {
	junk := rnic.SendWR{ID: wrUnsignaled, Op: rnic.OpSend, SGL: [][]byte{words(1, 1, 1, 3, make([]byte, 4000))}}
	var first [1]byte
	for i := 0; ; i++ {
		err := c.qp.PostSend(junk)
		if i == 0 {
			p.nc.Read(first[:])
			p.in = io.MultiReader(bytes.NewReader(first[:]), p.nc)
		}
		switch {
		case errors.Is(err, rnic.ErrSQFull):
			return
		case err != nil:
			t.Fatalf("PostSend: %v", err)
		}
	}
}

// awaitWaitlist waits until n calls and Requests are on the waitlist.
func awaitWaitlist(t *testing.T, c *Conn, n int) {
	t.Helper()
	must.Become(t, "the line for the send queue", func() bool { return int(c.waitlist.n.Load()) == n })
}

// A call that finds the send queue full waits, is sent in its turn, and leaves no trace if given up
// before. In practice replies fill the queue, and a call in the reverse direction finds it full.
func TestCallWaitsForSendQueue(t *testing.T) {
	c, p := connect(t, Config{Credits: 8})
	first := start(t.Context(), c, nullCall(c, 1))
	p.wantCall(1)
	p.reply(1, 8) // opens the window
	if err := <-first.done; err != nil {
		t.Fatalf("Do: %v", err)
	}
	first.k.Release()

	fillSendQueue(t, c, p)
	ctx, cancel := context.WithCancel(t.Context())
	second, gone, third := start(t.Context(), c, nullCall(c, 2)), (*pendingDo)(nil), (*pendingDo)(nil)
	awaitWaitlist(t, c, 1)
	gone = start(ctx, c, nullCall(c, 3))
	awaitWaitlist(t, c, 2)
	third = start(t.Context(), c, nullCall(c, 4))
	awaitWaitlist(t, c, 3)
	cancel()
	if err := <-gone.done; !errors.Is(err, context.Canceled) {
		t.Fatalf("Do: %v, want %v", err, context.Canceled)
	}
	gone.k.Release()
	if n := c.outstanding(); n != 2 {
		t.Errorf("%d calls hold a credit", n)
	}
	for _, d := range []*pendingDo{second, third} {
		p.wantCall(d.k.xid)
		p.reply(d.k.xid, 8)
		if err := <-d.done; err != nil {
			t.Fatalf("Do: %v", err)
		}
		d.k.Release()
	}
	checkReleased(t, c)
}

// The end of the connection ends the calls waiting for the send queue.
func TestEndWhileCallsWaitForSendQueue(t *testing.T) {
	c, p := connect(t, Config{Credits: 8})
	first := start(t.Context(), c, nullCall(c, 1))
	p.wantCall(1)
	p.reply(1, 8)
	<-first.done
	first.k.Release()
	fillSendQueue(t, c, p)
	var ds []*pendingDo
	for xid := uint32(2); xid < 6; xid++ {
		ds = append(ds, start(t.Context(), c, nullCall(c, xid)))
	}
	awaitWaitlist(t, c, len(ds))
	c.Abort(errStalled)
	for _, d := range ds {
		if err := <-d.done; !errors.Is(err, errStalled) {
			t.Errorf("Do: %v, want %v", err, errStalled)
		}
		d.k.Release()
	}
	<-c.Done()
	checkReleased(t, c)
}

// No goroutine can make a call before the receives for replies are posted, or at all if posting
// them failed.
func TestReceivesAreThereBeforeCalls(t *testing.T) {
	dev := iwarp.Open(rnic.DeviceConfig{})
	const credits = 2048 // many, so that posting the receives takes a while
	for range 20 {
		c, err := newConn(dev, Config{Credits: credits})
		if err != nil {
			t.Fatalf("newConn: %v", err)
		}
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				if err := c.requester.start(); err != nil {
					t.Errorf("start: %v", err)
				}
				c.receives.mu.Lock()
				defer c.receives.mu.Unlock()
				if n := c.receives.all; n != credits+recvSlack {
					t.Errorf("%d receives", n)
				}
			})
		}
		callers.Wait()
		c.qp.Close()
	}
	c, err := newConn(dev, Config{})
	if err != nil {
		t.Fatalf("newConn: %v", err)
	}
	c.qp.Close()
	for range 2 {
		if err := c.requester.start(); !errors.Is(err, rnic.ErrState) {
			t.Errorf("start: %v, want %v", err, rnic.ErrState)
		}
	}
}

// inState waits until a call is in a state.
func inState(t *testing.T, k *Call, s callState) {
	t.Helper()
	must.Become(t, "the state "+s.String(), func() bool {
		k.rq.mu.Lock()
		defer k.rq.mu.Unlock()
		return k.state == s
	})
}

// A peer that guesses the XID of an unsent call gains nothing: the call can still be given up, and
// the end of the connection still ends it.
func TestReplyBeforeCallIsSent(t *testing.T) {
	c, p := connect(t, Config{Credits: 8})
	first := start(t.Context(), c, nullCall(c, 1))
	p.wantCall(1)
	p.reply(1, 8)
	<-first.done
	first.k.Release()
	fillSendQueue(t, c, p)
	ctx, cancel := context.WithCancel(t.Context())
	gone, ended := start(ctx, c, nullCall(c, 2)), start(t.Context(), c, nullCall(c, 3))
	awaitWaitlist(t, c, 2)
	p.reply(2, 8)
	p.reply(3, 8)
	inState(t, gone.k, callEarly)
	inState(t, ended.k, callEarly)
	cancel()
	if err := <-gone.done; !errors.Is(err, context.Canceled) {
		t.Errorf("Do: %v, want %v", err, context.Canceled)
	}
	gone.k.Release()
	c.Abort(errStalled)
	if err := <-ended.done; !errors.Is(err, errStalled) {
		t.Errorf("Do: %v, want %v", err, errStalled)
	}
	ended.k.Release()
	<-c.Done()
	checkReleased(t, c)
}

// A call counts as answered if it is given up while the RNIC still has it, and its reply comes
// before the call has left.
func TestReplyWhileCallIsLeaving(t *testing.T) {
	c, p := connect(t, Config{Credits: 8, sendGrace: time.Hour})
	first := start(t.Context(), c, nullCall(c, 1))
	p.wantCall(1)
	p.reply(1, 8)
	<-first.done
	first.k.Release()
	fillSendQueue(t, c, p)
	ctx, cancel := context.WithCancel(t.Context())
	second := start(ctx, c, nullCall(c, 2))
	awaitWaitlist(t, c, 1)
	for c.waitlist.n.Load() > 0 { // until there is room for it, after all earlier posts
		p.next()
	}
	cancel()
	inState(t, second.k, callLeaving)
	p.reply(2, 8)
	inState(t, second.k, callEarly)
	p.wantCall(2)
	if err := <-second.done; err != nil {
		t.Errorf("Do: %v", err)
	}
	second.k.Release()
	checkReleased(t, c)
}
