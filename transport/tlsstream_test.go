// A session's bytes on the wire: full records, deadlines within writes, and the end.

package transport

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport/internal/ktls"
)

// A tapConn keeps the written bytes. With a nonzero limit, the first, third, fifth … Write writes
// at most limit bytes and returns os.ErrDeadlineExceeded.
type tapConn struct {
	net.Conn
	wrote []byte
	limit int
	late  bool
}

func (c *tapConn) Write(b []byte) (int, error) {
	if c.limit > 0 {
		if c.late = !c.late; c.late {
			b = b[:min(len(b), c.limit)]
		}
	}
	n, err := c.Conn.Write(b)
	c.wrote = append(c.wrote, b[:n]...)
	if err == nil && c.late {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// streams returns both ends of a session over TCP, the server's with a tap.
func streams(t *testing.T) (server, client *tlsStream, tap *tapConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	tap = &tapConn{Conn: near}
	cfg, _ := serverTLS(testPKI().server, alpnSunRPC)
	server = newTLSStream(tap, cfg, serverEnd, nil)
	strict, _ := clientTLS(testPKI().client, l.Addr().String(), alpnSunRPC)
	client = newTLSStream(far, strict, clientEnd, nil)
	done := make(chan error)
	go func() { done <- server.handshake() }()
	must.Succeed(t, client.handshake(), <-done)
	tap.wrote = nil
	return server, client, tap
}

// pieces returns buffers like those of replies with data, and their bytes.
func pieces() (bufs net.Buffers, whole []byte) {
	for _, n := range []int{132, 1 << 20, 3, 60, 20_000, 16 << 10, 1, 16<<10 - 1, 700, 40_000} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		bufs = append(bufs, b)
		whole = append(whole, b...)
	}
	return bufs, whole
}

// TestWritesAreFullRecords: buffers of any sizes leave as records of 16 KiB, the last one excepted,
// and the number of bytes on the wire is as computed.
func TestWritesAreFullRecords(t *testing.T) {
	server, client, tap := streams(t)
	bufs, whole := pieces()
	got := make(chan []byte)
	go func() {
		b := make([]byte, len(whole))
		_, err := io.ReadFull(client, b)
		must.Succeed(t, err)
		got <- b
	}()
	before := server.wire.sealed.Load()
	n, err := writeBuffers(server, &bufs)
	if err != nil || len(bufs) > 0 || int(n) != len(tap.wrote) {
		t.Errorf("wrote %d bytes, %v, and %d buffers are left; want %d, and none", n, err, len(bufs), len(tap.wrote))
	}
	if !bytes.Equal(<-got, whole) {
		t.Error("other bytes have arrived")
	}
	want := wireSize(len(whole))
	if sealed := int(server.wire.sealed.Load() - before); len(tap.wrote) != want || sealed != want {
		t.Errorf("%d bytes on the wire, counted %d; want %d", len(tap.wrote), sealed, want)
	}
	for wire := tap.wrote; len(wire) > 0; {
		size := tlsHeader + int(binary.BigEndian.Uint16(wire[3:]))
		if wire = wire[size:]; len(wire) > 0 && size != tlsPayload+tlsOverhead {
			t.Errorf("a record of %d bytes, want %d", size, tlsPayload+tlsOverhead)
		}
	}
}

// TestWriteContinuesAfterDeadline: deadlines in the middle of writes lose, repeat and damage
// nothing, by writeBuffers and by Write.
func TestWriteContinuesAfterDeadline(t *testing.T) {
	for name, write := range map[string]func(s *tlsStream, bufs net.Buffers) (late int, err error){
		"writeBuffers": func(s *tlsStream, bufs net.Buffers) (late int, err error) {
			for {
				if _, err = s.writeBuffers(&bufs); !errors.Is(err, os.ErrDeadlineExceeded) {
					return late, err
				}
				late++
			}
		},
		"Write": func(s *tlsStream, bufs net.Buffers) (late int, err error) {
			for _, b := range bufs {
				for again := true; again; {
					var n int
					n, err = s.Write(b)
					b, again = b[n:], errors.Is(err, os.ErrDeadlineExceeded)
					if again {
						late++
					}
				}
			}
			return late, err
		},
	} {
		server, client, tap := streams(t)
		tap.limit = 1000
		bufs, whole := pieces()
		got := make(chan []byte)
		go func() {
			b := make([]byte, len(whole))
			_, err := io.ReadFull(client, b)
			must.Succeed(t, err)
			got <- b
		}()
		late, err := write(server, bufs)
		if err != nil || late < 10 {
			t.Errorf("%s: %v after %d deadlines, want many", name, err, late)
		}
		if !bytes.Equal(<-got, whole) {
			t.Errorf("%s: other bytes have arrived", name)
		}
	}
}

// TestReadContinuesAfterDeadline: deadlines while a record arrives byte by byte lose nothing.
func TestReadContinuesAfterDeadline(t *testing.T) {
	server, client, tap := streams(t)
	bufs := net.Buffers{[]byte("sealed, and not sent yet")}
	tap.limit = 1
	want := string(bufs[0])
	b, late := make([]byte, 100), 0
	for read := 0; read == 0; {
		if _, err := server.writeBuffers(&bufs); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("write: %v", err)
		}
		tap.late = false // so that each write is one byte
		client.wire.Conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		n, err := client.Read(b)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			late++
		case err != nil || string(b[:n]) != want:
			t.Fatalf("read %q, %v; want %q", b[:n], err, want)
		}
		read = n
	}
	if late < tlsHeader {
		t.Errorf("%d deadlines, want some within the header", late)
	}
}

// TestBufferedInput: buffered is true while a Read would return bytes that the socket no longer
// has.
func TestBufferedInput(t *testing.T) {
	server, client, _ := streams(t)
	two := net.Buffers{make([]byte, 2*tlsPayload)}
	_, err := server.writeBuffers(&two)
	must.Succeed(t, err)
	for i, c := range []struct {
		size int
		want bool
	}{{10, true}, {tlsPayload - 10, true}, {tlsPayload - 1, true}, {100, false}} {
		_, err := io.ReadFull(client, make([]byte, min(c.size, 2*tlsPayload)))
		if i == 3 { // the rest: one byte
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				must.Succeed(t, err)
			}
		}
		if got := client.buffered(); got != c.want {
			t.Errorf("after read %d of %d bytes: buffered %v, want %v", i, c.size, got, c.want)
		}
		if i == 2 {
			server.closeNotify()
			_, err := server.flush()
			must.Succeed(t, err)
		}
	}
}

// TestUnreadAnswersAreBounded: a peer that makes this end seal records without a write cannot fill
// its memory.
func TestUnreadAnswersAreBounded(t *testing.T) {
	server, _, _ := streams(t)
	record, sum := make([]byte, 100), 0
	for err := error(nil); err == nil; sum += len(record) {
		if _, err = server.wire.Write(record); sum > 1<<20 {
			t.Fatalf("%d bytes were kept", sum)
		}
	}
	if len(server.wire.out) > 5*tlsBatch {
		t.Errorf("%d bytes are kept", len(server.wire.out))
	}
}

// errCut replaces the end of a socket.
var errCut = errors.New("cut")

// A cutEnd is a socket with errCut as its end, which shows whether a close_notify came before it.
type cutEnd struct{ net.Conn }

func (c cutEnd) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		err = errCut
	}
	return n, err
}

// TestEndsAreNotified: the server's shutdown, its answer to a client that has finished, and a
// client's Close end the session by a close_notify.
func TestEndsAreNotified(t *testing.T) {
	conformance.Proves(t, "R9289-041")
	session := func(s *Server, addr string) (*tls.Conn, net.Conn) {
		nc := raw(t, addr)
		must.Succeed(t, probeTLS(nc))
		cfg, _ := clientTLS(testPKI().client, addr, alpnSunRPC)
		tc := tls.Client(cutEnd{nc}, cfg)
		answerOf(t, tc, record(0))
		return tc, nc
	}
	s, addr := tlsServer(t, testPKI().server)
	tc, nc := session(s, addr)
	must.Succeed(t, nc.(*net.TCPConn).CloseWrite())
	if _, err := tc.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the client's end: %v, want %v", err, io.EOF)
	}
	tc, _ = session(s, addr)
	go s.Shutdown(bg)
	if _, err := tc.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after a shutdown: %v, want %v", err, io.EOF)
	}
	ends := make(chan error, 1)
	addr = scripted(t, func(n int, nc net.Conn) {
		nc.Write(answerTo(readCall(nc)))
		cfg, _ := serverTLS(testPKI().server, alpnSunRPC)
		tc := tls.Server(cutEnd{nc}, cfg)
		call := readCall(tc)
		tc.Write(sumReply(call, 0))
		_, err := tc.Read(make([]byte, 1))
		ends <- err
	})
	c, err := DialTCP(bg, addr, ClientConfig{TLS: testPKI().client})
	must.Succeed(t, err)
	c.Close()
	if err := <-ends; err != io.EOF {
		t.Errorf("after the client's Close: %v, want %v", err, io.EOF)
	}
}

// An unfinishedKernel is a softKernel that has met no close_notify.
type unfinishedKernel struct{ softKernel }

func (unfinishedKernel) Notified() bool { return false }

// TestForgedFINKeepsReplies: a FIN alone, which anyone on the way can forge, does not remove
// replies that the client may ask for again. After a close_notify they are removed.
func TestForgedFINKeepsReplies(t *testing.T) {
	for name, take := range map[string]takeTLS{
		"here":          nil,
		"in the kernel": func(h *ktls.Handshake) (kernelTLS, error) { return unfinishedKernel{softKernel{h.TLS}}, nil },
	} {
		for _, proper := range []bool{false, true} {
			if proper && take != nil {
				continue // the test's kernel never reports one
			}
			s, addr := tlsServer(t, testPKI().server)
			s.take = take
			dial := func() (*tls.Conn, *net.TCPConn) {
				nc := raw(t, addr)
				must.Succeed(t, probeTLS(nc))
				cfg, _ := clientTLS(testPKI().client, addr, alpnSunRPC)
				return tls.Client(nc, cfg), nc.(*net.TCPConn)
			}
			tc, nc := dial()
			sendRaw(t, tc, callOf(7, tCount, 1))
			first := resultRaw(t, tc)
			server := onlyConn(s)
			if proper {
				must.Succeed(t, tc.CloseWrite())
			}
			must.Succeed(t, nc.CloseWrite())
			<-server.ended
			again, _ := dial()
			sendRaw(t, again, callOf(7, tCount, 1))
			want := first
			if proper {
				want++
			}
			if got := resultRaw(t, again); got != want {
				t.Errorf("%s, close_notify %v: the repeated call gets %d, want %d", name, proper, got, want)
			}
		}
	}
}

// TestFateOverTLS: a client that closes after its last reply has all replies, because the bytes on
// the wire are counted and not those of the replies.
func TestFateOverTLS(t *testing.T) {
	n := networks[2]
	_, s, addr := n.start(t, ServerConfig{})
	c := n.client(t, addr, ClientConfig{})
	sink, in := make([]byte, 100_000), words{100_000}
	must.Succeed(t, c.Call(bg, testProc(tRead), &in, &readRes{}, sink, 0), c.Call(bg, testProc(tNull), nil, nil, nil, 0))
	var server *tcpConn
	s.mu.Lock()
	for sc := range s.conns {
		server = sc.(*tcpConn)
	}
	s.mu.Unlock()
	if got, acked := server.peer.origin.fate(), server.replied.Load(); got != fateLive || acked < 100_000 {
		t.Errorf("fate %v with %d bytes, want %v", got, acked, fateLive)
	}
	c.Close()
	<-server.ended
	if got := server.peer.origin.fate(); got != fateClosed {
		t.Errorf("fate %v, want %v", got, fateClosed)
	}
}
