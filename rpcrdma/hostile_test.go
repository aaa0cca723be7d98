// Inactive peers.

package rpcrdma

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// A muteProxy forwards TCP in both directions until it is switched to drop the answers.
func muteProxy(t *testing.T, to string, mute *atomic.Bool) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
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

// A peer that leaves our RDMA Reads unanswered is cut off, and the budget is free again.
func TestStalledPeer(t *testing.T) {
	dev := iwarp.Open(rnic.DeviceConfig{})
	l, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	budget := mem.NewBudget(4 << 20)
	accepted := make(chan *Conn, 1)
	go func() {
		defer close(accepted)
		if req, err := l.Accept(context.Background()); err == nil {
			if s, err := Accept(dev, req, Config{Handler: &echoServer{}, Budget: budget, stall: 100 * time.Millisecond}); err == nil {
				accepted <- s
			}
		}
	}()
	var mute atomic.Bool
	c, err := Dial(t.Context(), dev, muteProxy(t, l.Addr().String(), &mute), Config{})
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer c.Close()
	s := <-accepted
	if s == nil {
		t.Fatal("not accepted")
	}
	if err := doNull(c); err != nil {
		t.Fatalf("doNull: %v", err)
	}
	mute.Store(true)
	k := c.NewCall()
	e := begin(k, procWrite)
	e.Item(make([]byte, 1<<20))
	setMsg(k, e)
	d := start(t.Context(), c, k)
	<-s.Done()
	if !errors.Is(s.Err(), errStalled) {
		t.Errorf("Err: %v, want %v", s.Err(), errStalled)
	}
	if budget.Free() != 4<<20 {
		t.Errorf("%d bytes free", budget.Free())
	}
	if err := <-d.done; !errors.Is(err, ErrClosed) {
		t.Errorf("Do: %v, want %v", err, ErrClosed)
	}
	k.Release()
	checkReleased(t, c, s)
}
