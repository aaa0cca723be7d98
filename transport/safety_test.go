// Rules not covered elsewhere: memory shares, stored replies and their lifetime, and calls
// canceled before they leave.

package transport

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
)

// A poorCarrier has no buffer for the first calls.
type poorCarrier struct {
	*tape
	missing, asked int
}

func (p *poorCarrier) buffer(_ *Call, n int) []byte {
	if p.asked++; p.asked <= p.missing {
		return nil
	}
	return make([]byte, n)
}

// TestBufferWaits: a call asks until it gets a buffer, and then no more.
func TestBufferWaits(t *testing.T) {
	for _, row := range []struct {
		missing, asked int
		want           bool
	}{{0, 1, true}, {2, 3, true}} {
		via := &poorCarrier{tape: newTape("10.0.0.1"), missing: row.missing}
		c := getCall(via)
		c.Ctx, c.standing = t.Context(), standsApart
		if b := c.Buffer(8); (b != nil) != row.want || via.asked != row.asked {
			t.Errorf("%+v: asked %d times, a buffer: %v", row, via.asked, b != nil)
		}
	}
}

// sloppy returns a program with a procedure that ignores decoding errors, and returns large
// results.
func sloppy(runs *atomic.Int32, size int) *Program {
	return &Program{Name: "SLOPPY", Number: testProg, Version: testVers, Procs: []Procedure{{Name: "SLOPPY", Run: func(c *Call) error {
		runs.Add(1)
		c.Args.Uint32()
		c.Res.Opaque(make([]byte, size))
		return nil
	}}}}
}

// TestNoResultsOfBadArguments: the reply is GARBAGE_ARGS, regardless of the procedure's results.
func TestNoResultsOfBadArguments(t *testing.T) {
	s := NewServer(ServerConfig{}, sloppy(new(atomic.Int32), 4))
	defer s.Shutdown(context.Background())
	m := callOf(1, 0, 0)
	m.Stream = m.Stream[:len(m.Stream)-4]
	if got := newTape("10.0.0.1").do(s, m); len(got.reply) != 24 || got.reply[23] != 4 {
		t.Errorf("%s %x", got.how, got.reply)
	}
}

// TestStoredReplies: replies above a size are not stored, and no reply is kept beyond its lifetime.
func TestStoredReplies(t *testing.T) {
	for _, row := range []struct {
		size int
		age  time.Duration
		runs int32
	}{{100, 0, 1}, {drcReplyMax + 1, 0, 2}, {100, drcAge + time.Second, 2}, {100, drcAge / 2, 1}} {
		var runs atomic.Int32
		s := NewServer(ServerConfig{}, sloppy(&runs, row.size))
		one := newTape("10.0.0.1")
		one.do(s, callOf(7, 0, 1))
		one.cut()
		s.drc.mu.Lock()
		for _, e := range s.drc.entries {
			e.at = e.at.Add(-row.age)
		}
		s.drc.mu.Unlock()
		s.drc.expire(time.Now())
		if got := newTape("10.0.0.1").do(s, callOf(7, 0, 1)); got.how != "reply" || runs.Load() != row.runs {
			t.Errorf("%d bytes, %v later: ran %d times, want %d", row.size, row.age, runs.Load(), row.runs)
		}
		s.Shutdown(context.Background())
	}
}

// TestLongerArgumentsAreAnotherCall: the checksum covers the arguments' beginning, the length all
// of them.
func TestLongerArgumentsAreAnotherCall(t *testing.T) {
	var runs atomic.Int32
	s := NewServer(ServerConfig{}, sloppy(&runs, 4))
	defer s.Shutdown(context.Background())
	for _, n := range []int{drcSummed, drcSummed + 4, drcSummed + 8} {
		m := callOf(7, 0, 1)
		newTape("10.0.0.1").do(s, chunks.Message{Stream: append(m.Stream, make([]byte, n)...)})
	}
	if n := runs.Load(); n != 3 {
		t.Errorf("ran %d times, want 3", n)
	}
}

// TestNoRoomWhileClosing: while many connections are already leaving, a new one displaces none.
func TestNoRoomWhileClosing(t *testing.T) {
	h := newConnServer(t, 64, 64)
	for range 64 {
		h.enter("192.0.2.1")
	}
	h.s.mu.Lock()
	h.s.leaving = minLeaving
	made := h.s.makeRoom(nil)
	h.s.leaving--
	madeBefore := h.s.makeRoom(nil)
	h.s.leaving = 0
	h.s.closing = true
	h.s.mu.Unlock()
	if made || !madeBefore {
		t.Errorf("room made beside %d that leave: %v, beside one less: %v", minLeaving, made, madeBefore)
	}
	if newConnServer(t, 64, 64).enter("192.0.2.1") == nil || h.enter("192.0.2.2") != nil {
		t.Error("a closing server took a connection, or an open one did not")
	}
}

// outCallOf returns a call outside the pool, whose calls have other bubbles' channels.
func (c *Client) outCallOf(xid uint32) *outCall {
	k := outCallPool.New().(*outCall)
	k.xid, k.proc, k.answers = xid, testProc(tNull), &c.answers
	return k
}

// TestQueuedCallIsWithdrawn: a call canceled while another is being written never leaves, and
// returns at once; the other one is unaffected.
func TestQueuedCallIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		c := newClient(ClientConfig{}, "")
		defer c.end()
		l := newTCPClientConn(ours, &c.cfg)
		call := func(ctx context.Context, xid uint32) chan error {
			ended := make(chan error, 1)
			go func() {
				k := c.outCallOf(xid)
				ended <- k.attempt(ctx, l, time.Now().Add(time.Minute))
			}()
			synctest.Wait()
			return ended
		}
		first := call(t.Context(), 1) // without a reader: it is being written
		ctx, cancel := context.WithCancel(t.Context())
		second := call(ctx, 2)
		cancel()
		synctest.Wait()
		select {
		case err := <-second:
			if err != context.Canceled {
				t.Errorf("the cancelled call: %v", err)
			}
		default:
			t.Error("the cancelled call waits for the other one")
		}
		all := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(theirs)
			all <- b
		}()
		synctest.Wait()
		l.close(ErrClosed)
		if err := <-first; !isLost(err) {
			t.Errorf("the call that was written: %v", err)
		}
		if b := <-all; len(b) != markLen+40 || b[markLen+3] != 1 {
			t.Errorf("the server got %x, want the first call alone", b)
		}
	})
}

// TestCallIsNotWrittenAfterItReturned: a call canceled while its record is being written, by
// itself or by another call, returns only when its memory is no longer read. With half a record
// sent the connection is useless.
func TestCallIsNotWrittenAfterItReturned(t *testing.T) {
	for _, byAnother := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			c := newClient(ClientConfig{}, "")
			defer c.end()
			l := newTCPClientConn(ours, &c.cfg)
			start := func(ctx context.Context, k *outCall) chan error {
				ended := make(chan error, 1)
				go func() { ended <- k.attempt(ctx, l, time.Now().Add(time.Minute)) }()
				synctest.Wait()
				return ended
			}
			other := make(chan error, 1)
			if byAnother {
				other = start(t.Context(), c.outCallOf(2))
			}
			ctx, cancel := context.WithCancel(t.Context())
			k := c.outCallOf(1)
			ended := start(ctx, k)
			if byAnother {
				io.ReadFull(theirs, make([]byte, markLen+40))
			}
			theirs.Read(make([]byte, 10)) // part of the record
			synctest.Wait()
			began := time.Now()
			cancel()
			if err := <-ended; err == nil {
				t.Error("no error")
			}
			if d := time.Since(began); d > 2*stuckTick {
				t.Errorf("written by another: %v; the cancelled call took %v to return", byAnother, d)
			}
			synctest.Wait()
			l.mu.Lock()
			if l.writer != nil || k.tcp.state != callIdle || l.err == nil {
				t.Errorf("written by another: %v; after its return: writing %v, state %d, %v", byAnother, l.writer != nil, k.tcp.state, l.err)
			}
			l.mu.Unlock()
			theirs.Close()
			l.close(ErrClosed)
			if byAnother && !isLost(<-other) {
				t.Error("the other call was not told of the end")
			}
		})
	}
}
