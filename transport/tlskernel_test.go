// Sessions in the kernel, of which a tls.Conn takes the place.

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport/internal/ktls"
)

// A softKernel is a session that has moved no further than to this type.
type softKernel struct{ *tls.Conn }

func (k softKernel) WriteBuffers(b *net.Buffers) (int64, error) { return b.WriteTo(k.Conn) }

// kernelServer serves the test program; its sessions move as take says, and those of its client
// into the kernel if possible.
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

// TestKernelSessions: calls of all sizes over a server's session that has moved, or that cannot
// move.
func TestKernelSessions(t *testing.T) {
	for name, take := range map[string]takeTLS{
		"moved": func(h *ktls.Handshake) (kernelTLS, error) { return softKernel{h.TLS}, nil },
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

// onlyConn returns a server's TCP connection.
func onlyConn(s *Server) (t *tcpConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		t = c.(*tcpConn)
	}
	return t
}

// TestKernelSessionOfHalf: a session that the kernel took over by half ends the connection.
func TestKernelSessionOfHalf(t *testing.T) {
	s, addr := tlsServer(t, testPKI().server)
	s.take = func(*ktls.Handshake) (kernelTLS, error) { return nil, errors.New("half") }
	_, err := DialTCP(bg, addr, ClientConfig{TLS: testPKI().client})
	if err == nil || strings.Contains(err.Error(), "half") {
		t.Errorf("dial: %v, want the end of the connection", err)
	}
	must.Become(t, "a failure counted", func() bool { return handshakeFailures(s) == "other 1" })
}

// TestUnacknowledgedReplies: replies to write, and bytes in the socket, are not acknowledged.
func TestUnacknowledgedReplies(t *testing.T) {
	s, c := kernelServer(t, func(h *ktls.Handshake) (kernelTLS, error) { return softKernel{h.TLS}, nil }, false)
	must.Succeed(t, c.Call(context.Background(), testProc(tNull), nil, nil, nil, 0))
	server := onlyConn(s)
	must.Become(t, "all acknowledged", server.acknowledged)
	server.mu.Lock()
	server.writing = true
	server.mu.Unlock()
	if server.acknowledged() {
		t.Error("acknowledged while a reply is written")
	}
	server.mu.Lock()
	server.writing = false
	server.mu.Unlock()
}
