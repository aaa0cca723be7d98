// Sessions in the kernel; in most tests a tls.Conn plays the kernel's part.

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport/internal/ktls"
)

// A softKernel replaces a session in the kernel: it is a tls.Conn with kernelTLS's methods.
type softKernel struct{ *tls.Conn }

// Notified reports each end as a proper end.
func (k softKernel) Notified() bool { return true }

func (k softKernel) WriteBuffers(b *net.Buffers) (int64, error) { return b.WriteTo(k.Conn) }

// softTake moves a session into a softKernel; it is a takeTLS.
func softTake(h *ktls.Handshake) (kernelTLS, error) { return softKernel{h.TLS}, nil }

// kernelServer serves the test program. Its sessions move as take says. With client, its client's
// session moves into the kernel if possible.
func kernelServer(t *testing.T, take takeTLS, client bool) (*Server, *Client) {
	t.Helper()
	s, addr := tlsServer(t, testPKI().server)
	s.take = take
	c, err := DialTCP(bg, addr, ClientConfig{TLS: testPKI().client, KernelTLS: client})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return s, c
}

// TestKernelSessions: calls of all sizes succeed over a server's session that has moved, or that
// cannot move.
func TestKernelSessions(t *testing.T) {
	for name, take := range map[string]takeTLS{
		"moved": softTake,
		"unsupported": func(*ktls.Handshake) (kernelTLS, error) {
			return nil, fmt.Errorf("%w: test", ktls.ErrUnsupported)
		},
		"as it is": kernelTake,
	} {
		t.Run(name, func(t *testing.T) {
			s, c := kernelServer(t, take, name == "as it is")
			for _, size := range []int{1, 100_000, 1 << 20} {
				sink, in, res := make([]byte, size), words{uint32(size)}, &readRes{}
				if err := c.Call(bg, testProc(tRead), &in, res, sink, 0); err != nil || len(res.data) != size {
					t.Errorf("READ of %d: %d bytes, %v", size, len(res.data), err)
				}
				sum := words{0}
				if err := c.Call(bg, testProc(tWrite), &writeArgs{sink}, &sum, nil, 0); err != nil {
					t.Errorf("WRITE of %d: %v", size, err)
				}
			}
			server := onlyConn(s)
			if moved := server.stream.Load().kernel != nil; moved != (name == "moved") && name != "as it is" {
				t.Errorf("moved: %v", moved)
			}
			c.Close()
			<-server.ended
			if got := server.peer.origin.fate(); got != fateClosed {
				t.Errorf("fate %v, want %v", got, fateClosed)
			}
		})
	}
}

// A spyKernel notes the buffers that are written whole, by their first bytes.
type spyKernel struct {
	kernelTLS
	sent chan *byte // of writes of 1 MiB
}

func (k *spyKernel) WriteBuffers(b *net.Buffers) (int64, error) {
	for _, p := range *b {
		if len(p) == 1<<20 {
			k.sent <- &p[0]
		}
	}
	return k.kernelTLS.WriteBuffers(b)
}

// TestKernelSessionSendsInPlace: a READ's data goes to the kernel from the buffer in which the
// procedure has put it, with no copy.
func TestKernelSessionSendsInPlace(t *testing.T) {
	p, spy, made := newTestProgram().program(), &spyKernel{sent: make(chan *byte, 8)}, make(chan *byte, 1)
	p.Procs[tRead].Run = func(c *Call) error {
		b := c.Buffer(int(c.Args.Uint32()))
		made <- &b[0]
		c.Res.Uint32(uint32(len(b)))
		c.Res.Item(b)
		return c.ArgsErr()
	}
	s := NewServer(ServerConfig{TLS: testPKI().serve}, p)
	s.take = func(h *ktls.Handshake) (k kernelTLS, err error) {
		if k, err = kernelTake(h); errors.Is(err, ktls.ErrUnsupported) {
			k, err = softTake(h)
		}
		spy.kernelTLS = k
		return spy, err
	}
	addr, done, err := listenTCP(s, "127.0.0.1:0")
	must.Succeed(t, err)
	defer shutdown(t, s, done)
	c, err := DialTCP(bg, addr, ClientConfig{TLS: testPKI().client})
	must.Succeed(t, err)
	defer c.Close()
	in, res := words{1 << 20}, &readRes{}
	must.Succeed(t, c.Call(bg, testProc(tRead), &in, res, make([]byte, 1<<20), 0))
	if got, want := <-spy.sent, <-made; got != want {
		t.Errorf("sent the memory at %p, want the procedure's at %p", got, want)
	}
}

// onlyConn returns a server's TCP connection.
func onlyConn(s *Server) (t *tcpConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		t = c.(*tcpConn)
	}
	return t
}

// TestKernelSessionOfHalf: a session whose move into the kernel fails halfway ends the connection.
func TestKernelSessionOfHalf(t *testing.T) {
	s, addr := tlsServer(t, testPKI().server)
	s.take = func(*ktls.Handshake) (kernelTLS, error) { return nil, errors.New("half") }
	_, err := DialTCP(bg, addr, ClientConfig{TLS: testPKI().client})
	if err == nil || strings.Contains(err.Error(), "half") {
		t.Errorf("dial: %v, want the end of the connection", err)
	}
	must.Become(t, "a failure counted", func() bool { return handshakeFailures(s) == "other 1" })
}

// TestEndAwaitsTheWriter: a writer that has released its last call delays the connection's end, so
// that the server knows of all replies, and answers close_notify.
func TestEndAwaitsTheWriter(t *testing.T) {
	for name, take := range map[string]takeTLS{"user": nil, "moved": softTake} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewServer(ServerConfig{TLS: testPKI().serve}, newTestProgram().program())
				s.take = take
				defer s.Shutdown(t.Context())
				nc := piped(t, s)
				defer nc.Close()
				must.Succeed(t, probeTLS(nc))
				cfg, _ := clientTLS(testPKI().client, "server.test:1", alpnSunRPC)
				tc := tls.Client(nc, cfg)
				must.Succeed(t, tc.Handshake())
				answerOf(t, tc, record(0))
				synctest.Wait()
				server := onlyConn(s)
				setWriting(server, true)
				must.Succeed(t, tc.CloseWrite())
				time.Sleep(2 * closeWait) // the bubble's clock; without a FIN
				select {
				case <-server.ended:
					t.Error("ended while a goroutine writes")
				default:
				}
				setWriting(server, false)
				if n, err := tc.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("at the end: %d bytes, %v; want %v", n, err, io.EOF)
				}
			})
		})
	}
}

// setWriting makes a writer begin or stop.
func setWriting(c *tcpConn, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing = on
	c.stopped.Broadcast()
}

// TestUnacknowledgedReplies: replies to write, and bytes in the socket, are not acknowledged.
func TestUnacknowledgedReplies(t *testing.T) {
	s, c := kernelServer(t, softTake, false)
	must.Succeed(t, c.Call(context.Background(), testProc(tNull), nil, nil, nil, 0))
	server := onlyConn(s)
	must.Become(t, "all acknowledged", server.acknowledged)
	setWriting(server, true)
	if server.acknowledged() {
		t.Error("acknowledged while a reply is written")
	}
	setWriting(server, false)
}
