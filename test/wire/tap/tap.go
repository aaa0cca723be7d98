// The proxy: accepts connections, forwards bytes, and records them.

// Package tap is a TCP proxy for tests. It writes all its traffic into a capture file like tcpdump,
// without privileges or lost packets. It can cut a connection in the middle of its traffic.
package tap

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Direction is relative to the proxy.
type Direction int

// The two directions.
const (
	ToServer Direction = iota
	ToClient
)

// Tap is a running proxy.
type Tap struct {
	ln       net.Listener
	upstream string
	capture  *Capture

	cut  [2]atomic.Int64 // bytes until the cut; 0: never
	cuts atomic.Int64

	opened atomic.Int64

	mu    sync.Mutex
	split [2]func(fpdu []byte) int // guarded by mu, as is conns
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

// New listens on a free port of a local address and forwards connections to upstream. With a
// capture it records all bytes; the caller closes the capture after the tap.
func New(listen, upstream string, capture *Capture) (*Tap, error) {
	lc := net.ListenConfig{Control: limit(pathMSS(upstream))}
	ln, err := lc.Listen(context.Background(), "tcp4", net.JoinHostPort(listen, "0"))
	if err != nil {
		return nil, err
	}
	t := &Tap{ln: ln, upstream: upstream, capture: capture, conns: map[net.Conn]bool{}}
	t.wg.Go(t.accept)
	return t, nil
}

// Port returns the port where the tap listens.
func (t *Tap) Port() int { return t.ln.Addr().(*net.TCPAddr).Port }

// CutAfter resets the connection on which the next n bytes in one direction have passed; with
// several connections, the connection with the last of these bytes. It cuts once.
func (t *Tap) CutAfter(d Direction, n int64) { t.cut[d].Store(n) }

// Cuts returns the number of connections cut.
func (t *Tap) Cuts() int { return int(t.cuts.Load()) }

// Conns returns the number of connections forwarded so far.
func (t *Tap) Conns() int { return int(t.opened.Load()) }

// Close ends the tap and every connection through it.
func (t *Tap) Close() error {
	err := t.ln.Close()
	t.mu.Lock()
	for c := range t.conns {
		c.Close()
	}
	t.conns = nil
	t.mu.Unlock()
	t.wg.Wait()
	return err
}

func (t *Tap) accept() {
	for {
		client, err := t.ln.Accept()
		if err != nil {
			return
		}
		dial := net.Dialer{Control: limit(connMSS(client))}
		server, err := dial.Dial("tcp4", t.upstream)
		if err != nil {
			reset(client)
			continue
		}
		if !t.keep(client, server) {
			return
		}
		t.opened.Add(1)
		flow := t.capture.flow(client.RemoteAddr().(*net.TCPAddr).Port, server.RemoteAddr().(*net.TCPAddr).Port)
		t.wg.Go(func() { t.carry(client, server, flow) })
	}
}

func (t *Tap) keep(conns ...net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range conns {
		if t.conns == nil {
			c.Close()
			continue
		}
		t.conns[c] = true
	}
	return t.conns != nil
}

// carry forwards one connection until both directions have ended.
func (t *Tap) carry(client, server net.Conn, flow *flow) {
	var wg sync.WaitGroup
	wg.Go(func() { t.pass(client, server, flow, ToServer) })
	wg.Go(func() { t.pass(server, client, flow, ToClient) })
	wg.Wait()
	client.Close()
	server.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, client)
	delete(t.conns, server)
}

var errCut = errors.New("cut")

func (t *Tap) pass(from, to net.Conn, flow *flow, d Direction) {
	buf := make([]byte, 1<<16)
	out := t.splitter(to, d)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			// Write to the capture first, so that a peer's reply always follows its cause.
			flow.data(d, buf[:n])
			if err = errors.Join(err, t.forward(out, buf[:n], d)); errors.Is(err, errCut) {
				t.cuts.Add(1)
				reset(from)
				reset(to)
				return
			}
		}
		if err == nil {
			continue
		}
		flow.fin(d)
		out.flush()
		if errors.Is(err, io.EOF) {
			to.(*net.TCPConn).CloseWrite()
		} else {
			reset(from)
			reset(to)
		}
		return
	}
}

// forward forwards bytes, up to the cut if the cut lies among the bytes.
func (t *Tap) forward(to *splitter, b []byte, d Direction) error {
	if left := t.cut[d].Load(); left > 0 {
		rest := left - int64(len(b))
		if rest <= 0 {
			t.cut[d].Store(0)
			to.Write(b[:left])
			to.flush()
			return errCut
		}
		t.cut[d].Store(rest)
	}
	_, err := to.Write(b)
	return err
}

// reset ends a connection like a broken network.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}
