// A Client with several connections, and one with a server that is not ready yet.

package nfsclient

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// serveGetattr serves only NULL and GETATTR; run answers GETATTR.
func serveGetattr(t *testing.T, run func(c *transport.Call) error) string {
	t.Helper()
	procs := make([]transport.Procedure, nfs3.ProcGetattr+1)
	procs[nfs3.ProcNull] = transport.Procedure{Name: "NULL", Inline: true, Idempotent: true, Run: func(*transport.Call) error { return nil }}
	procs[nfs3.ProcGetattr] = transport.Procedure{Name: "GETATTR", Inline: true, Idempotent: true, Run: run}
	s := transport.NewServer(transport.ServerConfig{}, &transport.Program{Name: "NFS", Number: nfs3.Program, Version: nfs3.Version, Procs: procs})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	done := make(chan struct{})
	go func() { defer close(done); s.ServeTCP(l) }()
	t.Cleanup(func() { s.Shutdown(context.Background()); <-done })
	return l.Addr().String()
}

// A dam forwards connections to a server, and can hold back the bytes from one client connection.
type dam struct {
	mu   sync.Mutex
	held net.Conn // a client's connection
	free sync.Cond
}

func newDam(t *testing.T, to string) (d *dam, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	d = &dam{}
	d.free.L = &d.mu
	var wg sync.WaitGroup
	wg.Go(func() {
		for near, err := l.Accept(); err == nil; near, err = l.Accept() {
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			wg.Go(func() { d.pass(far, near); far.Close() })
			wg.Go(func() { io.Copy(struct{ io.Writer }{near}, far); near.Close() })
		}
	})
	t.Cleanup(func() { l.Close(); d.hold(nil); wg.Wait() })
	return d, l.Addr().String()
}

// hold holds back further bytes from connection c. With nil it holds back none.
func (d *dam) hold(c net.Conn) {
	d.mu.Lock()
	d.held = c
	d.mu.Unlock()
	d.free.Broadcast()
}

func (d *dam) pass(far, near net.Conn) {
	b := make([]byte, 4096)
	for {
		n, err := near.Read(b)
		if err != nil {
			return
		}
		d.mu.Lock()
		if d.held == near || d.held == anyConn {
			d.held = near
		}
		for d.held == near {
			d.free.Wait()
		}
		d.mu.Unlock()
		if _, err := far.Write(b[:n]); err != nil {
			return
		}
	}
}

// anyConn, passed to hold, stands for the next connection that sends bytes.
var anyConn net.Conn = new(net.TCPConn)

// waitUntil waits for a condition. If it never holds, the time limit of go test ends the wait.
func waitUntil(cond func() bool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		<-tick.C
	}
}

// A call waits on one of three connections. Once this connection is noticed as silent, the others
// take all further calls. After it answers again, it takes its share.
func TestSilentConnectionsAreAvoided(t *testing.T) {
	d, addr := newDam(t, serveGetattr(t, func(c *transport.Call) error {
		c.Args.Rest()
		(&nfs3.GetattrRes{Attr: nfs3.Fattr{Type: nfs3.TypeReg}}).EncodeXDR(c.Res)
		return nil
	}))
	c, err := Dial(t.Context(), addr, Options{Transport: TCP, Conns: 3, CallTimeout: transport.Hard, RetryTimeout: 2 * time.Second})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer c.Close()
	d.hold(anyConn)
	held := make(chan error, 1)
	go func() { held <- c.Null(t.Context()) }()
	silent := func() (n int) {
		for _, conn := range c.conns {
			if conn.Silent() {
				n++
			}
		}
		return n
	}
	waitUntil(func() bool { return silent() > 0 })
	for range 6 { // two rounds
		if conn := c.conn(0); conn.Silent() {
			t.Error("a silent connection is picked")
		}
		if _, err := c.Getattr(t.Context(), nfs3.FH{}); err != nil {
			t.Errorf("getattr: %v", err)
		}
	}
	d.hold(nil)
	if err := <-held; err != nil {
		t.Errorf("the call on the silent connection: %v", err)
	}
	waitUntil(func() bool { return silent() == 0 })
	picked := map[*conn]int{}
	for range 9 {
		picked[c.conn(0)]++
	}
	for _, conn := range c.conns {
		if picked[conn] != 3 {
			t.Errorf("in turn, one of three was picked %d times of 9", picked[conn])
		}
	}
}

// A single silent connection is still used.
func TestOneSilentConnectionIsUsed(t *testing.T) {
	only := newConn(&transport.Client{})
	c := &Client{conns: []*conn{only}, turn: new(atomic.Uint32)}
	for range 3 {
		if c.conn(0) != only {
			t.Error("another")
		}
	}
}

// A hard Client also retries after JUKEBOX until its context ends.
func TestJukeboxIsOutwaitedWhenHard(t *testing.T) {
	var asked, puts atomic.Int32
	addr := serveGetattr(t, func(c *transport.Call) error {
		c.Args.Rest()
		if asked.Add(1) <= puts.Load() {
			c.Res.Uint32(uint32(nfs3.ErrJukebox))
			return nil
		}
		(&nfs3.GetattrRes{Attr: nfs3.Fattr{Type: nfs3.TypeReg}}).EncodeXDR(c.Res)
		return nil
	})
	c, err := Dial(t.Context(), addr, Options{Transport: TCP, CallTimeout: transport.Hard})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer c.Close()
	puts.Store(2)
	a, err := c.Getattr(t.Context(), nfs3.FH{})
	if err != nil {
		t.Errorf("getattr: %v", err)
	}
	if n := asked.Load(); a.Type != nfs3.TypeReg || n != 3 {
		t.Errorf("type %v after %d calls, want %v after 3", a.Type, n, nfs3.TypeReg)
	}
	puts.Store(1 << 30)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- second(c.Getattr(ctx, nfs3.FH{})) }()
	waitUntil(func() bool { return asked.Load() >= 4 })
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("%v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// How long a Client retries after JUKEBOX depends on the timeout.
func TestJukeboxPatience(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{0: 10 * time.Minute, time.Second: 10 * time.Second, time.Hour: 10 * time.Hour} {
		if got := (&Client{opt: Options{CallTimeout: timeout}}).jukeboxTimeout(); got != want {
			t.Errorf("%v: %v, want %v", timeout, got, want)
		}
	}
}

// A cancelled Dial ends, with one address, or with several that share the time.
func TestCancelledDialsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, opt := range []Options{{Transport: TCP}, {}, {Transport: TCP, CallTimeout: -5}} {
		c, err := Dial(ctx, "127.0.0.1:1", opt)
		if err == nil {
			c.Close()
			t.Errorf("%+v: connected", opt)
		}
	}
	if c, err := Dial(t.Context(), "host with spaces", Options{}); err == nil {
		c.Close()
		t.Error("connected to nothing")
	}
}
