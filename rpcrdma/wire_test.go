// A conversation on the wire: its messages and their order.

package rpcrdma

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A tap stands between two ends and keeps all bytes in passing order.
type tap struct {
	mu     sync.Mutex
	passed []passage
}

type passage struct {
	fromClient bool
	b          []byte
}

// between listens for the client and forwards to addr.
func (tp *tap) between(t *testing.T, addr string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", addr)
		if err != nil {
			in.Close()
			return
		}
		wg.Go(func() { tp.pump(in, out, true) })
		wg.Go(func() { tp.pump(out, in, false) })
	})
	return l.Addr().String()
}

func (tp *tap) pump(from, to net.Conn, fromClient bool) {
	defer to.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		tp.mu.Lock()
		tp.passed = append(tp.passed, passage{fromClient, bytes.Clone(buf[:n])})
		tp.mu.Unlock()
		to.Write(buf[:n])
	}
}

// A seen segment is one FPDU that has passed.
type seen struct {
	fromClient bool
	op         rdmap.Opcode
	last       bool
	payload    []byte
}

// segments parses the passed bytes after both start-up frames, and returns the frames too.
func (tp *tap) segments(t *testing.T) (frames map[bool]mpa.Frame, out []seen) {
	t.Helper()
	tp.mu.Lock()
	defer tp.mu.Unlock()
	frames = map[bool]mpa.Frame{}
	rest := map[bool][]byte{}
	for _, p := range tp.passed {
		b := append(rest[p.fromClient], p.b...)
		if _, ok := frames[p.fromClient]; !ok {
			f, n, err := mpa.ParseFrame(b, !p.fromClient)
			if err != nil || n == 0 {
				t.Fatalf("start-up frame %x: %v", b, err)
			}
			frames[p.fromClient], b = f, b[n:]
		}
		for len(b) > 0 {
			u, n, err := mpa.ParseFPDU(b, true)
			if err != nil {
				t.Fatalf("ParseFPDU: %v", err)
			}
			if n == 0 {
				break
			}
			h, payload, err := ddp.Parse(u)
			op, err2 := rdmap.ParseControl(h.Ctrl)
			if err != nil || err2 != nil {
				t.Fatalf("segment: %v, %v", err, err2)
			}
			out = append(out, seen{p.fromClient, op, h.Last, payload})
			b = b[n:]
		}
		rest[p.fromClient] = b
	}
	return frames, out
}

// tapped runs calls over a connection with a tap and returns the passed bytes.
func tapped(t *testing.T, cfg Config, calls ...func(c *Conn) error) (map[bool]mpa.Frame, []seen) {
	t.Helper()
	dev := iwarp.Open(rnic.DeviceConfig{})
	l, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	accepted := make(chan *Conn, 1)
	go func() {
		defer close(accepted)
		if req, err := l.Accept(context.Background()); err == nil {
			if s, err := Accept(dev, req, Config{Handler: &echoServer{}}); err == nil {
				accepted <- s
			}
		}
	}()
	var tp tap
	c, err := Dial(t.Context(), dev, tp.between(t, l.Addr().String()), cfg)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	for _, call := range calls {
		if err := call(c); err != nil {
			t.Errorf("call: %v", err)
		}
	}
	c.Close()
	if s := <-accepted; s != nil {
		s.Close()
	}
	return tp.segments(t)
}

// messages joins the Sends from one end.
func messages(segs []seen, fromClient bool) (out [][]byte) {
	var b []byte
	for _, s := range segs {
		if s.fromClient != fromClient || !s.op.IsSend() {
			continue
		}
		b = append(b, s.payload...)
		if s.last {
			out, b = append(out, b), nil
		}
	}
	return out
}

// The client opens the connection and sends only Sends and the answers to the server's RDMA Reads;
// the server answers each call once and sends nothing else.
func TestWireRoles(t *testing.T) {
	conformance.Proves(t, "R8166-001", "R8166-004", "R8166-013", "R8166-014", "R8166-015", "R8166-017", "R8166-020", "R8166-022",
		"R8166-029", "R8166-084", "R8166-105", "R8166-107", "R8166-171", "R8166-174", "R8167-019", "R8797-003", "R8797-023")
	frames, segs := tapped(t, Config{Credits: 7}, doNull,
		func(c *Conn) error { return doRead(c, 5001, true) }, func(c *Conn) error { return doWrite(c, 70_001) },
		func(c *Conn) error { return doLong(c, 9000) }, func(c *Conn) error { return doRead(c, 9, false) })
	for fromClient, f := range frames {
		if f.Reply == fromClient || !f.HasEnhanced {
			t.Errorf("start-up frame %+v", f)
		}
		if want := must.Hex(t, "f6ab0e18 01010b0b"); !bytes.Equal(f.PrivateData, want) {
			t.Errorf("private data %x, want %x", f.PrivateData, want)
		}
	}
	for _, s := range segs {
		allowed := []rdmap.Opcode{rdmap.OpSend, rdmap.OpSendInvalidate, rdmap.OpWrite, rdmap.OpReadRequest}
		if s.fromClient {
			allowed = []rdmap.Opcode{rdmap.OpSend, rdmap.OpReadResponse}
		}
		if !slices.Contains(allowed, s.op) {
			t.Errorf("%v, from the client %v", s.op, s.fromClient)
		}
	}
	for _, fromClient := range []bool{true, false} {
		msgs := messages(segs, fromClient)
		if len(msgs) != 5 {
			t.Errorf("%d messages, from the client %v", len(msgs), fromClient)
		}
		for i, m := range msgs {
			var h Header
			if err := h.Parse(m); err != nil || h.Proc != ProcMsg && h.Proc != ProcNoMsg {
				t.Fatalf("%x: %v, %v", m, h.Proc, err)
			}
			wantCredits, direction := uint32(7), uint32(0)
			if !fromClient {
				wantCredits, direction = DefaultCredits, 1
			}
			if h.Version != 1 || h.Credits != wantCredits {
				t.Errorf("message %d: version %d, %d credits", i, h.Version, h.Credits)
			}
			body := m[h.Len:]
			if want := words(h.XID, direction); h.Proc == ProcMsg && !bytes.HasPrefix(body, want) {
				t.Errorf("message %d: body %x, want %x", i, body[:8], want)
			}
		}
		if n := len(msgs[0]); n != 28+12 {
			t.Errorf("NULL has %d bytes", n)
		}
	}
}

// A call's messages come in this order: call, RDMA Reads, Read Responses, RDMA Writes, reply.
func TestWireOrder(t *testing.T) {
	conformance.Proves(t, "R8166-009", "R8166-012", "R8166-077", "R8166-086")
	for name, tc := range map[string]struct {
		call func(c *Conn) error
		want string
	}{
		"NULL":  {doNull, "call reply"},
		"READ":  {func(c *Conn) error { return doRead(c, 100_001, true) }, "call Write reply"},
		"WRITE": {func(c *Conn) error { return doWrite(c, 100_001) }, "call Request Response reply"},
		"long":  {func(c *Conn) error { return doLong(c, 100_001) }, "call Request Response Write reply"},
	} {
		_, segs := tapped(t, Config{}, tc.call)
		var order []string
		for _, s := range segs {
			what := map[rdmap.Opcode]string{rdmap.OpWrite: "Write", rdmap.OpReadRequest: "Request", rdmap.OpReadResponse: "Response"}[s.op]
			switch {
			case s.op.IsSend() && s.fromClient:
				what = "call"
			case s.op.IsSend():
				what = "reply"
			}
			if len(order) == 0 || order[len(order)-1] != what {
				order = append(order, what)
			}
		}
		if got := strings.Join(order, " "); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
