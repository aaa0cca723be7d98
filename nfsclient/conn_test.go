// How a call's connection is chosen, and the counters.

package nfsclient

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// okGetattr answers GETATTR.
func okGetattr(c *transport.Call) error {
	c.Args.Rest()
	(&nfs3.GetattrRes{Attr: nfs3.Fattr{Type: nfs3.TypeReg}}).EncodeXDR(c.Res)
	return nil
}

// 64 transfers of 1 MiB run on 2, 3 and 4 connections. The transfers are spread, and one
// connection, for small calls, has at most one of them.
func TestSmallCallsDoNotWaitBehindPayload(t *testing.T) {
	addr := serveGetattr(t, okGetattr)
	for n := 2; n <= 4; n++ {
		c, err := Dial(t.Context(), addr, Options{Transport: TCP, Conns: n})
		if err != nil {
			t.Fatalf("dial: %v", err)
		}
		defer c.Close()
		for range 64 {
			c.conn(1 << 20).payload.Add(1 << 20)
		}
		for i, k := range c.conns {
			if p := k.payload.Load(); i > 0 && p < 63<<20/int64(n) {
				t.Errorf("%d connections: number %d has %d bytes under way of 64 MiB", n, i, p)
			}
		}
		for range 10 {
			if p := c.conn(0).payload.Load(); p > maxSmallConnPayload {
				t.Errorf("%d connections: a small call is behind %d bytes", n, p)
			}
		}
	}
}

// One of three connections is cut and cannot reconnect: all later calls use the other two.
func TestLostConnectionCostsTheOthersNothing(t *testing.T) {
	addr := serveGetattr(t, okGetattr)
	var made []net.Conn
	var dials atomic.Int32
	opt := Options{Transport: TCP, Conns: 3, CallTimeout: transport.Hard, RetryTimeout: time.Hour}
	opt.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1) > 3 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		made = append(made, nc)
		return nc, err
	}
	c, err := Dial(t.Context(), addr, opt)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer c.Close()
	made[1].Close()
	ctx, cancel := context.WithCancel(t.Context())
	found := make(chan error, 1)
	go func() { // this call makes the client notice the loss
		_, err := c.conns[1].call(ctx, 0, nil, nfs3.ProcNull, void{}, void{}, nil, 0)
		found <- err
	}()
	waitUntil(func() bool { return !c.conns[1].Up() && dials.Load() > 3 })
	for range 30 {
		if _, err := c.Getattr(t.Context(), nfs3.FH{}); err != nil {
			t.Fatalf("getattr: %v", err)
		}
	}
	cancel()
	if err := <-found; err == nil {
		t.Error("a call over the lost connection was answered")
	}
	up := 0
	for _, l := range c.Links() {
		if l.Up {
			up++
		}
	}
	if up != 2 {
		t.Errorf("%d connections of 3 are up: %+v", up, c.Links())
	}
}

// Calls are counted: number, results, bytes and times.
func TestCallsAreCounted(t *testing.T) {
	var asked atomic.Int32
	addr := serveGetattr(t, func(c *transport.Call) error {
		if asked.Add(1)%2 == 0 {
			c.Args.Rest()
			c.Res.Uint32(uint32(nfs3.ErrStale))
			return nil
		}
		return okGetattr(c)
	})
	c, err := Dial(t.Context(), addr, Options{Transport: TCP})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer c.Close()
	as := c.As(transport.Cred{UID: 5})
	for range 5 {
		_, _ = c.Getattr(t.Context(), nfs3.FH{})
		_, _ = as.Getattr(t.Context(), nfs3.FH{})
	}
	s := c.Calls()["GETATTR"]
	if got, want := [3]uint64{s.Count, s.Errors, s.Retransmits}, [3]uint64{10, 5, 0}; got != want {
		t.Errorf("calls, errors and retransmissions: got %v, want %v", got, want)
	}
	if n := len(c.Calls()); n != 1 {
		t.Errorf("%d procedures, want 1", n)
	}
	if least := uint64(5*84 + 5*28); s.SentBytes < 400 || s.ReceivedBytes < least {
		t.Errorf("%d bytes sent, %d received, want 400 and %d at least", s.SentBytes, s.ReceivedBytes, least)
	}
	if s.RoundTrip <= 0 || s.Queue <= 0 {
		t.Errorf("round trips %v, queue %v, want times", s.RoundTrip, s.Queue)
	}
	var timed uint64
	for _, n := range s.Times {
		timed += n
	}
	if timed != 10 {
		t.Errorf("%d round trips, want 10", timed)
	}
	if p99 := s.Quantile(0.99); p99 <= 0 || p99 > s.RoundTrip {
		t.Errorf("p99 %v, want more than 0 and %v at most", p99, s.RoundTrip)
	}
	if least, p99 := s.Quantile(0), s.Quantile(0.99); least > p99 {
		t.Errorf("the least round trip is %v, above p99 %v", least, p99)
	}
	l := c.Links()
	if len(l) != 1 {
		t.Fatalf("%d connections, want 1", len(l))
	}
	if !l[0].Up || l[0].Connects != 1 {
		t.Errorf("up %v, connected %d times, want true, 1", l[0].Up, l[0].Connects)
	}
	if l[0].Addr != addr {
		t.Errorf("address %s, want %s", l[0].Addr, addr)
	}
}

// Each duration is in a bucket that begins at most an eighth below it.
func TestTimeBuckets(t *testing.T) {
	for d := time.Duration(1); d > 0 && d < 1<<62; d += d/16 + 1 {
		i := timeBucket(d)
		if i >= timeBuckets {
			t.Fatalf("%d ns is in bucket %d of %d", d, i, timeBuckets)
		}
		least := TimeBucket(i)
		if least > d || d-least > d/8 {
			t.Fatalf("%d ns is in bucket %d, which begins at %d", d, i, least)
		}
		if i > 0 && TimeBucket(i-1) >= least {
			t.Fatalf("bucket %d begins at %d, not before the next one at %d", i-1, TimeBucket(i-1), least)
		}
	}
	if i := timeBucket(1<<63 - 1); i >= timeBuckets {
		t.Errorf("the longest is in bucket %d of %d", i, timeBuckets)
	}
}

// A call with a cut connection is sent again and counted as a retransmission.
func TestRetransmitsAreCounted(t *testing.T) {
	entered, release := make(chan struct{}, 2), make(chan struct{})
	addr := serveGetattr(t, func(c *transport.Call) error {
		entered <- struct{}{}
		<-release
		return okGetattr(c)
	})
	var first net.Conn
	opt := Options{Transport: TCP, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		if first == nil {
			first = nc
		}
		return nc, err
	}}
	c, err := Dial(t.Context(), addr, opt)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer c.Close()
	done := make(chan error, 1)
	go func() { _, err := c.Getattr(t.Context(), nfs3.FH{}); done <- err }()
	<-entered
	first.Close()
	close(release)
	if err := <-done; err != nil {
		t.Errorf("getattr: %v", err)
	}
	s := c.Calls()["GETATTR"]
	if got, want := [3]uint64{s.Count, s.Retransmits, s.Errors}, [3]uint64{1, 1, 0}; got != want {
		t.Errorf("calls, retransmissions and errors: got %v, want %v", got, want)
	}
	if l := c.Links(); l[0].Connects != 2 {
		t.Errorf("%+v", l)
	}
}
