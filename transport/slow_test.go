// Peers that are slow, and peers that have stopped.

package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// A call whose context ends returns though the server takes no octet of it, long
// before the connection is given up for its silence; and the next call is served.
func TestCancelOfAStuckCall(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
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
		t.Fatal(err)
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

// A client that takes its replies slowly, but takes them, is not cut off, though
// many together need longer than one may stop.
func TestSlowButSteadyReader(t *testing.T) {
	_, _, addr := networks[0].start(t, ServerConfig{HalfTimeout: 500 * time.Millisecond})
	nc := raw(t, addr)
	const replies, size = 32, 1 << 20
	for xid := range uint32(replies) {
		nc.Write(fragment(callOf(xid, tRead, size).Stream, true))
	}
	var total int
	buf := make([]byte, size)
	for total < replies*size {
		time.Sleep(60 * time.Millisecond)
		n, err := io.ReadFull(nc, buf)
		if total += n; err != nil {
			t.Fatalf("cut off after %d octets: %v", total, err)
		}
	}
	if bytes.Count(buf, []byte{0}) == size {
		t.Error("zeros")
	}
}
