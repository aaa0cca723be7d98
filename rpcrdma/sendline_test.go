// A send queue that is full: both roles wait for room in it, in order.

package rpcrdma

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// A bareResponder is a peer over bare TCP that takes bytes only when it is told to.
type bareResponder struct {
	t  *testing.T
	nc net.Conn
	n  int // messages sent
}

// connect sets up a connection to a bareResponder with small socket buffers and without CRCs.
func connect(t *testing.T, cfg Config) (*Conn, *bareResponder) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := &bareResponder{t: t}
	var started sync.WaitGroup
	started.Go(func() {
		if p.nc, err = l.Accept(); err != nil {
			t.Error(err)
			return
		}
		p.nc.(*net.TCPConn).SetReadBuffer(64 << 10)
		b := make([]byte, 1024)
		io.ReadFull(p.nc, b[:20])
		io.ReadFull(p.nc, b[:binary.BigEndian.Uint16(b[18:])])
		pd := AppendPrivateData(nil, PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096})
		p.nc.Write(mpa.AppendFrame(nil, &mpa.Frame{Reply: true, Rev: 2, HasEnhanced: true, Enhanced: mpa.Enhanced{IRD: 16, ORD: 16}, PrivateData: pd}))
	})
	over, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	over.(*net.TCPConn).SetWriteBuffer(32 << 10)
	c, err := DialOver(t.Context(), rnic.Open(rnic.DeviceConfig{CRC: rnic.CRCOff}), over, cfg)
	if err != nil {
		t.Fatal(err)
	}
	started.Wait()
	t.Cleanup(func() { p.nc.Close(); c.Close() })
	return c, p
}

// next takes in one FPDU and returns its DDP segment.
func (p *bareResponder) next() []byte {
	var n [2]byte
	io.ReadFull(p.nc, n[:])
	b := make([]byte, mpa.FPDULen(int(binary.BigEndian.Uint16(n[:])))-2)
	if _, err := io.ReadFull(p.nc, b); err != nil {
		p.t.Fatal(err)
	}
	return b[:binary.BigEndian.Uint16(n[:])]
}

// wantCall takes in what comes until a call of this XID.
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

// fillSendQueue posts messages of no call until not one more has room.
func fillSendQueue(t *testing.T, c *Conn) {
	junk := rnic.SendWR{ID: wrQuiet, Op: rnic.OpSend, SGL: [][]byte{words(1, 1, 1, 3, make([]byte, 4000))}}
	for moved := uint64(0); ; {
		err := c.qp.PostSend(junk)
		if errors.Is(err, rnic.ErrSQFull) {
			if now := c.qp.Moved(); now == moved { // and the socket takes nothing either
				return
			} else {
				moved = now
			}
			yield()
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// awaitLine waits until n calls and Requests are in line for the send queue.
func awaitLine(t *testing.T, c *Conn, n int) {
	t.Helper()
	eventually(t, "the line for the send queue", func() bool { return int(c.line.n.Load()) == n })
}

// A call that finds the send queue full, as one in the reverse direction does where the
// replies fill it, waits, is sent in its turn, and leaves nothing behind when it is
// given up on before.
func TestCallWaitsForSendQueue(t *testing.T) {
	c, p := connect(t, Config{Credits: 8})
	first := start(t.Context(), c, nullCall(c, 1))
	p.wantCall(1)
	p.reply(1, 8) // opens the window
	if err := <-first.done; err != nil {
		t.Fatal(err)
	}
	first.k.Release()

	fillSendQueue(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	second, gone, third := start(t.Context(), c, nullCall(c, 2)), (*pendingDo)(nil), (*pendingDo)(nil)
	awaitLine(t, c, 1)
	gone = start(ctx, c, nullCall(c, 3))
	awaitLine(t, c, 2)
	third = start(t.Context(), c, nullCall(c, 4))
	awaitLine(t, c, 3)
	cancel()
	if err := <-gone.done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	gone.k.Release()
	if n := c.outstanding(); n != 2 {
		t.Errorf("%d calls hold a credit", n)
	}
	for _, d := range []*pendingDo{second, third} {
		p.wantCall(d.k.xid)
		p.reply(d.k.xid, 8)
		if err := <-d.done; err != nil {
			t.Fatal(err)
		}
		d.k.Release()
	}
	checkHome(t, c)
}

// The end of the connection ends the calls that wait for the send queue.
func TestEndWhileCallsWaitForSendQueue(t *testing.T) {
	c, p := connect(t, Config{Credits: 8})
	first := start(t.Context(), c, nullCall(c, 1))
	p.wantCall(1)
	p.reply(1, 8)
	<-first.done
	first.k.Release()
	fillSendQueue(t, c)
	var ds []*pendingDo
	for xid := uint32(2); xid < 6; xid++ {
		ds = append(ds, start(t.Context(), c, nullCall(c, xid)))
	}
	awaitLine(t, c, len(ds))
	c.Abort(errStalled)
	for _, d := range ds {
		if err := <-d.done; !errors.Is(err, errStalled) {
			t.Error(err)
		}
		d.k.Release()
	}
	<-c.Done()
	checkHome(t, c)
}

// No call is made before the receives for replies are posted, whoever posts them, and
// none at all when they could not be.
func TestReceivesAreThereBeforeCalls(t *testing.T) {
	dev := rnic.Open(rnic.DeviceConfig{})
	const credits = 2048 // so that it takes a while
	for range 20 {
		c, err := newConn(dev, Config{Credits: credits})
		if err != nil {
			t.Fatal(err)
		}
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				if err := c.startCalling(); err != nil {
					t.Error(err)
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				if len(c.recvs) != credits+recvSlack {
					t.Errorf("%d receives", len(c.recvs))
				}
			})
		}
		callers.Wait()
		c.qp.Close()
	}
	c, err := newConn(dev, Config{})
	if err != nil {
		t.Fatal(err)
	}
	c.qp.Close()
	for range 2 {
		if err := c.startCalling(); !errors.Is(err, rnic.ErrState) {
			t.Error(err)
		}
	}
}
