// The tests' program: it echoes, computes, waits, fails.

package transport

import (
	"context"
	"errors"
	"hash/crc32"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/xdr"
)

const (
	testProg = 0x20000a11
	testVers = 3
)

// The test program's procedures.
const (
	tNull      = iota // nothing
	tAdd              // two uint32: their sum; inline
	tEcho             // a string
	tRead             // count: opaque of count bytes, as an item
	tWrite            // opaque (item): count and sum of its bytes
	tPanic            // panics
	tAuth             // AUTH_TOOWEAK
	tSystem           // some error
	tCount            // not idempotent: number of runs
	tHold             // waits until released
	tNone             // not served
	tOver             // HOLD, idempotent, but not beside its own copy
	tLink             // opaque (item): number of runs, not idempotent
	tOverItem         // OVER, with an opaque (item)
	tHoldFails        // HOLD, then some error
	tProcs
)

// A testProgram counts its runs, and holds calls until it is released.
type testProgram struct {
	runs    atomic.Uint32
	entered chan struct{}
	hold    chan struct{}
	unhold  sync.Once
}

func newTestProgram() *testProgram {
	return &testProgram{entered: make(chan struct{}, 1024), hold: make(chan struct{})}
}

func (p *testProgram) release() { p.unhold.Do(func() { close(p.hold) }) }

// pattern is the content written by fill: no part repeats.
var pattern = func() []byte {
	b := make([]byte, 251)
	for i := range b {
		b[i] = byte(i*7 + 3)
	}
	return b
}()

func fill(b []byte) {
	for n := copy(b, pattern); n > 0 && n < len(b); {
		n += copy(b[n:], b[:n/251*251])
	}
}

func sum(b []byte) uint32 { return crc32.ChecksumIEEE(b) }

func (p *testProgram) program() *Program {
	procs := make([]Procedure, tProcs)
	procs[tNull] = Procedure{Name: "NULL", Inline: true, Idempotent: true, Run: func(c *Call) error { return nil }}
	procs[tAdd] = Procedure{Name: "ADD", Inline: true, Idempotent: true, Run: func(c *Call) error {
		a, b := c.Args.Uint32(), c.Args.Uint32()
		if err := c.ArgsErr(); err != nil {
			return err
		}
		c.Res.Uint32(a + b)
		return nil
	}}
	procs[tEcho] = Procedure{Name: "ECHO", Idempotent: true, Run: func(c *Call) error {
		b := c.Args.Opaque(1 << 20)
		if err := c.ArgsErr(); err != nil {
			return err
		}
		c.Res.Opaque(b)
		return nil
	}}
	procs[tRead] = Procedure{Name: "READ", Idempotent: true, Run: func(c *Call) error {
		n := c.Args.Uint32()
		if err := c.ArgsErr(); err != nil {
			return err
		}
		b := c.Buffer(int(n))
		if b == nil {
			return ErrSystem
		}
		fill(b)
		c.Res.Uint32(n)
		c.Res.Item(b)
		return nil
	}}
	procs[tWrite] = Procedure{Name: "WRITE", Idempotent: true, ArgItem: true, Run: func(c *Call) error {
		c.Args.Uint32()
		b := c.Args.Item(2 << 20)
		if err := c.ArgsErr(); err != nil {
			return err
		}
		c.Res.Uint32(uint32(len(b)))
		c.Res.Uint32(sum(b))
		return nil
	}}
	procs[tPanic] = Procedure{Name: "PANIC", Run: func(c *Call) error { panic("of the test") }}
	procs[tAuth] = Procedure{Name: "AUTH", Run: func(c *Call) error { return &AuthError{5} }}
	procs[tSystem] = Procedure{Name: "SYSTEM", Run: func(c *Call) error { return context.Canceled }}
	procs[tCount] = Procedure{Name: "COUNT", Run: func(c *Call) error {
		c.Args.Uint32()
		if err := c.ArgsErr(); err != nil {
			return err
		}
		c.Res.Uint32(p.runs.Add(1))
		return nil
	}}
	procs[tHold] = Procedure{Name: "HOLD", Run: func(c *Call) error {
		p.runs.Add(1)
		p.entered <- struct{}{}
		<-p.hold
		c.Res.Uint32(p.runs.Load())
		return nil
	}}
	procs[tLink] = Procedure{Name: "LINK", ArgItem: true, Run: func(c *Call) error {
		c.Args.Item(1 << 20)
		if err := c.ArgsErr(); err != nil {
			return err
		}
		c.Res.Uint32(p.runs.Add(1))
		return nil
	}}
	procs[tOverItem] = Procedure{Name: "OVERITEM", ArgItem: true, Idempotent: true, NoOverlap: true, Run: func(c *Call) error {
		c.Args.Item(1 << 20)
		return procs[tHold].Run(c)
	}}
	procs[tHoldFails] = Procedure{Name: "HOLDFAILS", Run: func(c *Call) error { return errors.Join(procs[tHold].Run(c), context.Canceled) }}
	procs[tOver] = procs[tHold]
	procs[tOver].Name, procs[tOver].Idempotent, procs[tOver].NoOverlap = "OVER", true, true
	return &Program{Name: "TEST", Number: testProg, Version: testVers, Procs: procs}
}

func testProc(n uint32) *Proc {
	return &Proc{Prog: testProg, Vers: testVers, Proc: n, Name: "test", MaxReply: 64}
}

// words are results and arguments with 32-bit numbers.
type words []uint32

func (w words) EncodeXDR(e *xdr.Encoder) {
	for _, v := range w {
		e.Uint32(v)
	}
}

func (w words) DecodeXDR(d *xdr.Decoder) {
	for i := range w {
		w[i] = d.Uint32()
	}
}

type text struct{ s []byte }

func (t *text) EncodeXDR(e *xdr.Encoder) { e.Opaque(t.s) }
func (t *text) DecodeXDR(d *xdr.Decoder) { t.s = append([]byte(nil), d.Opaque(1<<20)...) }

// readRes is READ's result.
type readRes struct {
	n    uint32
	data []byte
}

func (r *readRes) DecodeXDR(d *xdr.Decoder) { r.n, r.data = d.Uint32(), d.Item(2<<20) }

// writeArgs are WRITE's arguments.
type writeArgs struct{ data []byte }

func (w *writeArgs) EncodeXDR(e *xdr.Encoder) { e.Uint32(uint32(len(w.data))); e.Item(w.data) }

// A network is a transport for calls: the tests run over each.
type network struct {
	name  string
	serve func(s *Server, addr string) (listening string, done chan error, err error)
	dial  func(ctx context.Context, addr string, cfg ClientConfig) (*Client, error)
}

var networks = []network{
	{"TCP", listenTCP, DialTCP},
	{"RDMA", listenRDMA, func(ctx context.Context, addr string, cfg ClientConfig) (*Client, error) {
		return DialRDMA(ctx, iwarp.Open(rnic.DeviceConfig{}), addr, cfg)
	}},
	{"TLS", listenTLS, dialTLS},
	{"RDMA-TLS", listenRDMATLS, dialRDMATLS},
}

func listenTCP(s *Server, addr string) (string, chan error, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", nil, err
	}
	done := make(chan error, 1)
	go func() { done <- s.ServeTCP(l) }()
	return l.Addr().String(), done, nil
}

func listenRDMA(s *Server, addr string) (string, chan error, error) {
	dev := iwarp.Open(rnic.DeviceConfig{})
	l, err := dev.Listen("tcp", addr)
	if err != nil {
		return "", nil, err
	}
	s.offerRDMATLS(l) // before the first connection
	done := make(chan error, 1)
	go func() { done <- s.ServeRDMA(dev, l) }()
	return l.Addr().String(), done, nil
}

// overEach runs a test over each network.
func overEach(t *testing.T, f func(t *testing.T, n network)) {
	for _, n := range networks {
		t.Run(n.name, func(t *testing.T) { f(t, n) })
	}
}

// start serves the test program until the test ends.
func (n network) start(t testing.TB, cfg ServerConfig) (*testProgram, *Server, string) {
	t.Helper()
	p := newTestProgram()
	s := NewServer(cfg, p.program())
	addr, done, err := n.serve(s, "127.0.0.1:0")
	if err != nil {
		t.Fatalf("serve: %v", err)
	}
	t.Cleanup(func() {
		p.release()
		shutdown(t, s, done)
	})
	return p, s, addr
}

func shutdown(t testing.TB, s *Server, done chan error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-done; err != ErrClosed {
		t.Errorf("Serve = %v", err)
	}
}

// client returns a client that is connected until the test ends.
func (n network) client(t testing.TB, addr string, cfg ClientConfig) *Client {
	t.Helper()
	c, err := n.dial(context.Background(), addr, cfg)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
