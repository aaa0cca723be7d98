// Slow peers, and stalled peers.

package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
)

// A call with an ended context returns even if the server accepts no byte of it, long before the
// connection is discarded for silence; and the next call is served.
func TestCancelOfAStuckCall(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		stuck, err := l.Accept()
		if err != nil {
			return
		}
		defer stuck.Close()
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		nc.Write(sumReply(readCall(nc), 3))
		io.Copy(io.Discard, nc)
	}()
	addr := l.Addr().String()
	c, err := DialTCP(bg, addr, ClientConfig{CallTimeout: time.Hour, RetryTimeout: 30 * time.Minute})
	if err != nil {
		t.Fatalf("DialTCP: %v", err)
	}
	defer func() { c.Close(); l.Close(); <-served }()
	ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
	defer cancel()
	err = c.Call(ctx, testProc(tWrite), &writeArgs{make([]byte, 64<<20)}, nil, nil, 0)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	out := words{0}
	if err := c.Call(bg, testProc(tAdd), words{1, 2}, out, nil, 0); err != nil || out[0] != 3 {
		t.Errorf("the next call: %v, %v", out, err)
	}
}

// A client that reads replies slowly but steadily is not cut off, even if many replies together
// exceed the stall limit.
func TestSlowButSteadyReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(ServerConfig{HalfTimeout: 500 * time.Millisecond}, newTestProgram().program())
		l := rnictest.Listen()
		done := make(chan error, 1)
		go func() { done <- s.ServeTCP(l) }()
		defer shutdown(t, s, done)
		nc, err := l.Dial()
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		defer nc.Close()
		const replies, size = 32, 1 << 20
		go func() {
			for xid := range uint32(replies) {
				nc.Write(fragment(callOf(xid, tRead, size).Stream, true))
			}
		}()
		buf := make([]byte, size)
		for total := 0; total < replies*size; {
			time.Sleep(60 * time.Millisecond)
			n, err := io.ReadFull(nc, buf)
			if total += n; err != nil {
				t.Fatalf("cut off after %d bytes: %v", total, err)
			}
		}
		if bytes.Count(buf, []byte{0}) == size {
			t.Error("zeros")
		}
	})
}
