// A server that loses the first call of a new connection.

package transport

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A loser drops the first calls that it is given, then answers PROG_UNAVAIL.
type loser struct{ left atomic.Int32 }

func (l *loser) ServeRPC(r *rpcrdma.Request) {
	if l.left.Add(-1) >= 0 {
		r.Drop()
		return
	}
	h := oncrpc.ReplyHeader{XID: xdr.NewDecoder(r.Msg.Stream).Uint32(), Accept: oncrpc.ProgUnavail}
	e := xdr.NewEncoder(r.Scratch())
	h.EncodeXDR(e)
	_ = r.Reply(chunks.Message{Stream: e.Bytes()})
}

// serveLoser returns how many connections it has taken.
func serveLoser(t *testing.T, lose int32) (addr string, conns *atomic.Int32) {
	dev := rnic.Open(rnic.DeviceConfig{})
	l, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &loser{}
	h.left.Store(lose)
	conns = new(atomic.Int32)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			req, err := l.Accept()
			if err != nil {
				return
			}
			c, err := rpcrdma.Accept(dev, req, rpcrdma.Config{Handler: h})
			if err != nil {
				continue
			}
			conns.Add(1)
			defer c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String(), conns
}

func TestFirstCallLost(t *testing.T) {
	wait := probeWait
	probeWait = 20 * time.Millisecond
	defer func() { probeWait = wait }()
	addr, conns := serveLoser(t, 2)
	c, err := DialRDMA(bg, rnic.Open(rnic.DeviceConfig{}), addr, ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Call(bg, testProc(tNull), nil, nil, nil, 0); err != ErrProgUnavail {
		t.Errorf("%v", err)
	}
	if n := conns.Load(); n != 3 {
		t.Errorf("%d connections, want 3", n)
	}
}

func TestAllCallsLost(t *testing.T) {
	wait := probeWait
	probeWait = 20 * time.Millisecond
	defer func() { probeWait = wait }()
	addr, _ := serveLoser(t, 1000)
	_, err := DialRDMA(bg, rnic.Open(rnic.DeviceConfig{}), addr, ClientConfig{Service: "nfs", RetryTimeout: 50 * time.Millisecond})
	if err == nil || err.Error() != "nfs server "+addr+" does not answer: no answer in time" {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(bg, 10*time.Millisecond)
	defer cancel()
	if _, err := DialRDMA(ctx, rnic.Open(rnic.DeviceConfig{}), addr, ClientConfig{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a context that ends: %v", err)
	}
}
