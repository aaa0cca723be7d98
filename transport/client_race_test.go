// A Client between two connections: races of ends, calls and dials.

package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A fakeClientConn is a test's connection: it counts its end, and its calls run trip.
type fakeClientConn struct {
	closed atomic.Int32
	why    error
	trip   func(ctx context.Context) error
}

func (l *fakeClientConn) roundTrip(ctx context.Context, _ *outCall) error { return l.trip(ctx) }

func (l *fakeClientConn) close(why error) error {
	l.why = why
	l.closed.Add(1)
	return nil
}

// linked returns a Client with connections from dial, the first one at once.
func linked(t *testing.T, cfg ClientConfig, dial func(ctx context.Context) (clientConn, error)) *Client {
	t.Helper()
	simulateCalls(t)
	cfg.Service = "nfs"
	c := newClient(cfg, "server:2049")
	c.dial = dial
	if _, err := c.connectFirst(bg); err != nil {
		t.Fatalf("connectFirst: %v", err)
	}
	return c
}

// TestCallAtTheEndOfItsClient: a call running during Close fails with ErrClosed, with any number
// of retries, and not with the connection's error.
func TestCallAtTheEndOfItsClient(t *testing.T) {
	for _, retries := range []int{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			l := &fakeClientConn{trip: func(ctx context.Context) error { return nil }}
			c := linked(t, ClientConfig{MaxRetries: retries}, func(context.Context) (clientConn, error) { return l, nil })
			cut := make(chan struct{})
			l.trip = func(context.Context) error { <-cut; return &lostError{errors.New("cut")} }
			ended := make(chan error, 1)
			go func() { ended <- c.Call(bg, testProc(tNull), nil, nil, nil, 0) }()
			synctest.Wait()
			c.end()
			close(cut)
			if err := <-ended; err != ErrClosed {
				t.Errorf("MaxRetries %d: %v", retries, err)
			}
			if err := c.Close(); err != nil || l.closed.Load() != 1 || l.why != ErrClosed {
				t.Errorf("closed %d times, for %v: %v", l.closed.Load(), l.why, err)
			}
			if err := c.Call(bg, testProc(tNull), nil, nil, nil, 0); err != ErrClosed {
				t.Errorf("a call of a closed Client: %v", err)
			}
		})
	}
}

// TestLateLossReportsItsCause: a connection lost after the call's timeout is not replaced for
// that call.
func TestLateLossReportsItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		cause := errors.New("reset by peer")
		l := &fakeClientConn{trip: func(context.Context) error {
			<-time.After(2 * time.Second)
			return &lostError{cause}
		}}
		c := linked(t, ClientConfig{CallTimeout: time.Second}, func(context.Context) (clientConn, error) { dials++; return l, nil })
		defer c.Close()
		err := c.Call(bg, testProc(tNull), nil, nil, nil, 0)
		var connect *ConnectError
		if !errors.As(err, &connect) {
			t.Fatalf("err: %v, want a %T", err, connect)
		}
		if !errors.Is(err, cause) {
			t.Fatalf("err: %v, want %v", err, cause)
		}
		must.Equal(t, "dials", dials, 1)
	})
}

// TestLateLossSparesTheNewConnection: if two calls lose one connection, the second to notice does
// not end its replacement.
func TestLateLossSparesTheNewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made []*fakeClientConn
		c := linked(t, ClientConfig{}, func(context.Context) (clientConn, error) {
			made = append(made, &fakeClientConn{trip: func(context.Context) error { return nil }})
			return made[len(made)-1], nil
		})
		old, cut := made[0], errors.New("cut")
		c.discard(old, cut)
		c.discard(old, cut)
		if err := c.Call(bg, testProc(tNull), nil, nil, nil, 0); err != nil {
			t.Fatalf("Call: %v", err)
		}
		c.discard(old, cut)
		synctest.Wait()
		must.Equal(t, "len(made)", len(made), 2)
		must.Equal(t, "c.current()", c.current(), clientConn(made[1]))
		must.Equal(t, "made[1].closed.Load()", made[1].closed.Load(), 0)
		if old.closed.Load() != 1 || old.why != cut {
			t.Errorf("the lost one was closed %d times, for %v", old.closed.Load(), old.why)
		}
		c.Close()
		if made[1].closed.Load() != 1 {
			t.Error("the last one was not closed")
		}
	})
}

// TestConnectionThatComesAfterClose: a dial that succeeds after Close leaves nothing open.
func TestConnectionThatComesAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &fakeClientConn{trip: func(context.Context) error { return &lostError{errors.New("cut")} }}
		late := &fakeClientConn{}
		dialing, let := make(chan struct{}), make(chan struct{})
		dials := 0
		c := linked(t, ClientConfig{}, func(context.Context) (clientConn, error) {
			if dials++; dials == 1 {
				return first, nil
			}
			close(dialing)
			<-let // regardless of the context
			return late, nil
		})
		called, closed := make(chan error, 1), make(chan error, 1)
		go func() { called <- c.Call(bg, testProc(tNull), nil, nil, nil, 0) }()
		<-dialing
		go func() { closed <- c.Close() }()
		if err := <-called; err != ErrClosed {
			t.Errorf("the call that waits for it: %v", err)
		}
		close(let)
		if err := <-closed; err != nil || late.closed.Load() != 1 || late.why != ErrClosed {
			t.Errorf("closed %d times, for %v: %v", late.closed.Load(), late.why, err)
		}
	})
}

// TestDialTimeoutReportsCause: the previous attempt's error is reported instead of the timeout.
func TestDialTimeoutReportsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("connection refused")
		var dials atomic.Int32
		lost := &fakeClientConn{trip: func(context.Context) error { return &lostError{errors.New("cut")} }}
		c := linked(t, ClientConfig{CallTimeout: 10 * time.Second}, func(ctx context.Context) (clientConn, error) {
			switch dials.Add(1) {
			case 1:
				return lost, nil
			case 2:
				return nil, cause
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		defer c.Close()
		err := c.Call(bg, testProc(tNull), nil, nil, nil, 0)
		if !errors.Is(err, cause) || dials.Load() != 3 {
			t.Errorf("%v after %d dials", err, dials.Load())
		}
	})
}

// TestResultsOverTheBound: an item inside an oversized reply fails with ErrNoRoom; results
// without an item are not measured, and damaged ones are reported as damaged.
func TestResultsOverTheBound(t *testing.T) {
	reply := func(words int) *xdr.Encoder {
		e := new(xdr.Encoder)
		(&oncrpc.ReplyHeader{XID: 1}).EncodeXDR(e)
		for range words {
			e.Uint32(7)
		}
		return e
	}
	k := new(Client).newOutCall()
	defer k.recycle()
	k.proc, k.res, k.maxReply = testProc(tAdd), words{0, 0, 0, 0}, 8
	if err := k.decode(reply(4).Bytes(), nil, false); err != nil {
		t.Errorf("results without an item: %v", err)
	}
	for size, want := range map[int]error{8: nil, 9: ErrNoRoom, 12: ErrNoRoom} {
		e := reply(1)
		e.Opaque(make([]byte, size))
		var r readRes
		k.res, k.maxReply = &r, 16
		if err := k.decode(e.Bytes(), nil, false); !errors.Is(err, want) || err != nil && want == nil {
			t.Errorf("an item of %d bytes: %v", size, err)
		}
		k.maxReply = 8
		if err := k.decode(e.Bytes()[:e.Len()-4], nil, false); !errors.Is(err, ErrBadReply) {
			t.Errorf("an item of %d bytes that is cut: %v", size, err)
		}
	}
}

// TestFailuresOverRDMA: only a connection's end makes a call repeat over a new one.
func TestFailuresOverRDMA(t *testing.T) {
	_, _, addr := networks[1].start(t, ServerConfig{})
	c := networks[1].client(t, addr, ClientConfig{})
	l := c.current().(*rdmaClientConn)
	ended, cancel := context.WithCancel(bg)
	cancel()
	other := errors.New("another error")
	for _, tc := range []struct {
		what string
		ctx  context.Context
		err  error
		want error
		lost bool
	}{
		{"silence", bg, rpcrdma.ErrTimeout, errNoAnswer, false},
		{"the connection ended", bg, rpcrdma.ErrClosed, rpcrdma.ErrClosed, true},
		{"something about the call", bg, other, other, false},
		{"its context ended", ended, context.Canceled, context.Canceled, false},
		{"both", ended, rpcrdma.ErrClosed, rpcrdma.ErrClosed, false},
	} {
		if err := l.failure(tc.ctx, tc.err); isLost(err) != tc.lost || !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.what, err)
		}
	}
	l.conn.Close()
	if err := l.failure(bg, other); !isLost(err) {
		t.Errorf("of a connection that is gone: %v", err)
	}
}

// TestProbeAcceptsAnyReply: any reply suffices, except one that reports an unknown version.
func TestProbeAcceptsAnyReply(t *testing.T) {
	ended, cancel := context.WithCancel(bg)
	cancel()
	cut := errors.New("cut")
	for _, tc := range []struct {
		what        string
		ctx         context.Context
		reply, want error
	}{
		{"a result", bg, nil, nil},
		{"a refusal", bg, ErrProgUnavail, nil},
		{"another version of RPC-over-RDMA", bg, fmt.Errorf("RDMA_ERROR: %w", rpcrdma.ErrVersion), rpcrdma.ErrVersion},
		{"silence", bg, errNoAnswer, errNoAnswer},
		{"the end of the connection", bg, &lostError{cut}, cut},
		{"the end of the context", ended, context.Canceled, context.Canceled},
	} {
		c := newClient(ClientConfig{}, "server:20049")
		defer c.end()
		l := &fakeClientConn{trip: func(context.Context) error { return tc.reply }}
		if err := c.probe(tc.ctx, l, time.Minute); !errors.Is(err, tc.want) || err != nil && tc.want == nil || isLost(err) {
			t.Errorf("%s: %v", tc.what, err)
		}
	}
}

// TestClosedConnectionIsNotEOF: a server closing its connections has its own error: io.EOF would
// mean to a file's reader that the file is complete.
func TestClosedConnectionIsNotEOF(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		p, s, addr := n.start(t, ServerConfig{})
		c := n.client(t, addr, ClientConfig{Service: "nfs", MaxRetries: -1})
		errs := make(chan error, 1)
		go func() { errs <- c.Call(bg, testProc(tHold), nil, words{0}, nil, 0) }()
		<-p.entered
		cut(s)
		err := <-errs
		var connect *ConnectError
		if !errors.As(err, &connect) || errors.Is(err, io.EOF) {
			t.Errorf("%v", err)
		}
	})
	c := newClient(ClientConfig{}, "server:2049")
	defer c.end()
	for _, cause := range []error{io.EOF, fmt.Errorf("mpa: %w", io.EOF)} {
		if err := c.connectError(cause); errors.Is(err, io.EOF) || err.Error() != "rpc server server:2049 does not answer: the server closed the connection" {
			t.Errorf("%v", err)
		}
	}
	c.dialErr = io.EOF
	ended, cancel := context.WithCancel(bg)
	cancel()
	if err := c.awaitDial(ended, nil, time.Time{}); errors.Is(err, io.EOF) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
