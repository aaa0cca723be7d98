// A server that loses a new connection's first call.

package transport

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A lossyServer drops a connection's calls, or answers PROG_UNAVAIL.
type lossyServer struct {
	drops bool
	lost  func()
}

func (l *lossyServer) ServeRPC(r *rpcrdma.Request) (leads bool) {
	if l.drops {
		r.Drop()
		l.lost()
		return true
	}
	h := oncrpc.ReplyHeader{XID: xdr.NewDecoder(r.Msg.Stream).Uint32(), Accept: oncrpc.ProgUnavail}
	e := xdr.NewEncoder(r.Scratch())
	h.EncodeXDR(e)
	_ = r.Reply(chunks.Message{Stream: e.Bytes()})
	return true
}

// serveLoser drops the calls on the first connections, and calls lost for each. It returns the
// number of accepted connections.
func serveLoser(t *testing.T, lose int32, lost func()) (addr string, conns *atomic.Int32) {
	dev := iwarp.Open(rnic.DeviceConfig{})
	l, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	conns = new(atomic.Int32)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			req, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			h := &lossyServer{drops: conns.Add(1) <= lose, lost: lost}
			c, err := rpcrdma.Accept(dev, req, rpcrdma.Config{Handler: h})
			if err != nil {
				continue
			}
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
	addr, conns := serveLoser(t, 2, func() {})
	c, err := DialRDMA(bg, iwarp.Open(rnic.DeviceConfig{}), addr, ClientConfig{})
	if err != nil {
		t.Fatalf("DialRDMA: %v", err)
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
	addr, _ := serveLoser(t, 1000, func() {})
	_, err := DialRDMA(bg, iwarp.Open(rnic.DeviceConfig{}), addr, ClientConfig{Service: "nfs", RetryTimeout: 50 * time.Millisecond})
	if err == nil || err.Error() != "nfs server "+addr+" does not answer: no answer in time" {
		t.Errorf("%v", err)
	}
}

// A caller that gives up during the first call does not wait for the next try.
func TestCancelOfAProbe(t *testing.T) {
	ctx, cancel := context.WithCancel(bg)
	addr, conns := serveLoser(t, 1000, cancel)
	if _, err := DialRDMA(ctx, iwarp.Open(rnic.DeviceConfig{}), addr, ClientConfig{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
