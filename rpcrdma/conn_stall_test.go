// Slow peers, lost peers, and calls on ended connections.

package rpcrdma

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/test/must"
)

func TestStallTicks(t *testing.T) {
	for _, c := range []struct {
		name  string
		busy  bool
		count int64  // pieces of work done between two ticks
		bytes uint64 // bytes moved between two ticks
		want  bool
	}{
		{"nothing is done", true, 0, 0, true},
		{"nothing to do", false, 0, 0, false},
		{"work is done", true, 1, 0, false},
		{"a large item moves", true, 0, minProgress, false},
		{"it takes all the ticks to move enough", true, 0, minProgress/(stallTicks-1) + 1, false},
		{"a byte now and then", true, 0, 1, true},
	} {
		var s stall
		var count int64
		var bytes uint64
		got := false
		for range 10 * stallTicks {
			got = s.tick(c.busy, count, bytes) || got
			count, bytes = count+c.count, bytes+c.bytes
		}
		if got != c.want {
			t.Errorf("%s: stalled %v", c.name, got)
		}
	}
	s := stall{}
	for i := range stallTicks {
		if s.tick(true, 0, 0) != (i == stallTicks-1) {
			t.Errorf("tick %d", i)
		}
	}
}

// TestAbandonedWindowEndsConnection: a reply with a wrong header is dropped, and its call keeps the
// credit. When abandoned calls hold all credits, the connection ends, so that its owner can make
// another one.
func TestAbandonedWindowEndsConnection(t *testing.T) {
	overProviders(t, testAbandonedWindowEndsConnection)
}

func testAbandonedWindowEndsConnection(t *bed) {
	// The stall tick is long enough for sending the call.
	p, c := rawResponder(t, Config{Credits: 2, stall: 100 * time.Millisecond}, r1)
	ctx, cancel := context.WithCancel(t.Context())
	k := start(ctx, c, nullCall(c, 7))
	p.wantCall(7)
	// The reply has a Reply chunk that was not offered.
	p.send(words(7, 1, 2, 0, 0, 0, 1, 1, 5, 0, 0, 0, 7, 1, 0))
	cancel()
	<-k.done
	k.k.Release()
	<-c.Done()
	if err := c.Err(); !errors.Is(err, errAbandoned) {
		t.Error("ended by", err)
	}
}

// TestAbandonedCallAnsweredInTime: a late reply gives the credit back, and the connection
// continues.
func TestAbandonedCallAnsweredInTime(t *testing.T) { overProviders(t, testAbandonedCallAnsweredInTime) }

func testAbandonedCallAnsweredInTime(t *bed) {
	p, c := rawResponder(t, Config{Credits: 1}, r1)
	for xid := uint32(7); xid < 10; xid++ {
		ctx, cancel := context.WithCancel(t.Context())
		k := start(ctx, c, nullCall(c, xid))
		p.wantCall(xid)
		cancel()
		<-k.done
		k.k.Release()
		if wedged, _ := c.requester.windowAbandoned(); !wedged {
			t.Fatal("the only credit is not with the call that was given up on")
		}
		p.send(words(int(xid), 1, 1, 0, 0, 0, 0, int(xid), 1, 0))
	}
	k := start(t.Context(), c, nullCall(c, 10))
	p.wantCall(10)
	p.send(words(10, 1, 1, 0, 0, 0, 0, 10, 1, 0))
	if err := <-k.done; err != nil {
		t.Fatalf("Do: %v", err)
	}
	k.k.Release()
	if wedged, _ := c.requester.windowAbandoned(); wedged || c.requester.abandoned != 0 {
		t.Errorf("%d calls count as abandoned", c.requester.abandoned)
	}
}

// TestCallsOfEndedConnectionAreNotKept: calls that fail after the end of the connection leave
// nothing in the requester.
func TestCallsOfEndedConnectionAreNotKept(t *testing.T) {
	overProviders(t, testCallsOfEndedConnectionAreNotKept)
}

func testCallsOfEndedConnectionAreNotKept(t *bed) {
	c, s := pair(t, Config{}, Config{Handler: &echoServer{}})
	if err := doNull(c); err != nil {
		t.Fatalf("doNull: %v", err)
	}
	s.Close()
	<-c.Done()
	for range 1000 {
		if err := doNull(c); err == nil {
			t.Fatal("a call over an ended connection succeeded")
		}
	}
	c.requester.mu.Lock()
	defer c.requester.mu.Unlock()
	if n := len(c.requester.calls); n > 8 {
		t.Errorf("%d calls are kept", n)
	}
}

// slowResponder runs a peer over bare TCP that grants credits by one reply. Then it reads a little
// at a time, slowly and steadily, and sends nothing more.
func slowResponder(t *testing.T, l net.Listener) {
	p, err := l.Accept()
	if err != nil {
		return
	}
	t.Cleanup(func() { p.Close() })
	p.(*net.TCPConn).SetReadBuffer(64 << 10)
	b := make([]byte, 64<<10)
	io.ReadFull(p, b[:20])
	io.ReadFull(p, b[:binary.BigEndian.Uint16(b[18:])])
	pd := AppendPrivateData(nil, PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096})
	p.Write(mpa.AppendFrame(nil, &mpa.Frame{Reply: true, Rev: 2, HasEnhanced: true, Enhanced: mpa.Enhanced{IRD: 16, ORD: 16}, PrivateData: pd}))
	io.ReadFull(p, b[:2])
	io.ReadFull(p, b[:mpa.FPDULen(int(binary.BigEndian.Uint16(b)))-2])
	xid := int(binary.BigEndian.Uint32(b[18:]))
	p.Write(mpa.AppendFPDU(nil, false, []byte{0x41, 0x43}, words(0, 0, 1, 0), words(xid, 1, 500, 0, 0, 0, 0, xid, 1, 0)))
	for err == nil {
		_, err = p.Read(b[:8<<10])
		time.Sleep(20 * time.Millisecond)
	}
}

// TestCancelledCallsLeaveOverSlowLink: calls cancelled while a slow peer has not yet taken them do
// not end the connection.
func TestCancelledCallsLeaveOverSlowLink(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	go slowResponder(t, l)
	over, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	over.(*net.TCPConn).SetWriteBuffer(32 << 10)
	c, err := DialOver(t.Context(), iwarp.Open(rnic.DeviceConfig{CRC: rnic.CRCOff}), over, Config{Credits: 500, sendGrace: 3 * time.Second})
	if err != nil {
		t.Fatalf("DialOver: %v", err)
	}
	defer c.Close()
	if err := doNull(c); err != nil {
		t.Fatalf("doNull: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range 500 {
		calls.Go(func() {
			k := c.NewCall()
			defer k.Release()
			k.Msg = chunks.Message{Stream: append(binary.BigEndian.AppendUint32(nil, nextXID.Add(1)), make([]byte, 3900)...)}
			k.MaxReply = 12
			if err := c.Do(ctx, k); !errors.Is(err, context.Canceled) {
				t.Errorf("Do: %v, want %v", err, context.Canceled)
			}
		})
	}
	must.Become(t, "500 calls", func() bool { return c.outstanding() == 500 })
	cancel()
	calls.Wait()
	if err := c.Err(); err != nil {
		t.Errorf("Err: %v", err)
	}
}

// TestSendGraceCountsLooks: a process stopped for all of sendGrace finds a single tick when it
// continues, and its cancelled call then has time to leave. Ticks without progress end the
// connection.
func TestSendGraceCountsLooks(t *testing.T) {
	for looks := 1; looks <= stallTicks; looks++ {
		c, _ := connect(t, Config{Credits: 1})
		k := c.NewCall()
		ticks, over := make(chan time.Time), make(chan struct{})
		go func() {
			c.awaitMoves(k, ticks)
			close(over)
		}()
		for range looks {
			ticks <- time.Time{}
		}
		k.wake <- struct{}{}
		<-over
		var want error
		if looks == stallTicks {
			want = errSendStuck
		}
		if err := c.Err(); !errors.Is(err, want) {
			t.Errorf("after %d looks: %v, want %v", looks, err, want)
		}
		k.Release()
	}
}
