// RFC 9289's rules for a session: one port, the ClientHello, bytes in clear, and the audit log.

package transport

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// TestOnePort: one port serves calls in clear and calls with TLS, and a ClientHello without a probe
// starts no handshake.
func TestOnePort(t *testing.T) {
	conformance.Proves(t, "R9289-001", "R9289-035")
	s, addr := tlsServer(t, testPKI().server)
	for i, n := range []network{networks[0], networks[2]} {
		c := n.client(t, addr, ClientConfig{})
		sum := words{0}
		if err := c.Call(bg, testProc(tAdd), words{3, 4}, sum, nil, 0); err != nil || sum[0] != 7 {
			t.Errorf("%s: ADD = %v, %v; want 7", n.name, sum, err)
		}
		if got, want := c.Channel().Level(), XprtSec(i); got != want {
			t.Errorf("%s: channel %v, want %v", n.name, got, want)
		}
	}
	cfg, _ := clientTLS(testPKI().client, addr, alpnSunRPC)
	if err := tls.Client(raw(t, addr), cfg).Handshake(); err == nil {
		t.Error("a handshake without a probe succeeds")
	}
	if got, want := handshakeFailures(s), "tls 1"; got != want {
		t.Errorf("counts %q, want %q", got, want)
	}
}

// goldenClientProbe is the client's probe of NFS, with the XID 0 and without its mark.
const goldenClientProbe = "00000000 00000000 00000002 000186a3 00000003 00000000 00000007 00000000 00000000 00000000"

// TestClientHello: the client's probe has the RFC's bytes. Its ClientHello has TLS 1.3 with
// encryption, the protocol sunrpc, and neither a ticket nor early data, also in a second session.
func TestClientHello(t *testing.T) {
	conformance.Proves(t, "R9289-002", "R9289-003", "R9289-004", "R9289-005", "R9289-010", "R9289-024", "R9289-029", "R9289-030", "R9289-031", "R9289-062")
	probes, hellos := make(chan []byte, 1), make(chan *tls.ClientHelloInfo, 1)
	server := testPKI().server.Clone()
	server.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		hellos <- h
		return nil, nil
	}
	addr := scripted(t, func(_ int, nc net.Conn) {
		probe := readCall(nc)
		probes <- probe
		nc.Write(answerTo(probe))
		tc := tls.Server(nc, server) // the server sends session tickets
		tc.Write(sumReply(readCall(tc), 0))
		io.Copy(io.Discard, tc)
	})
	client := &tls.Config{RootCAs: testPKI().ca.pool, ClientSessionCache: tls.NewLRUClientSessionCache(4), MinVersion: tls.VersionTLS12}
	for range 2 {
		c, err := DialTCP(bg, addr, ClientConfig{TLS: client})
		must.Succeed(t, err)
		c.Close()
		probe := <-probes
		clear(probe[:4])
		if got := spaced(probe); got != goldenClientProbe {
			t.Errorf("probe:\n got %s\nwant %s", got, goldenClientProbe)
		}
		checkHello(t, <-hellos)
	}
}

func checkHello(t *testing.T, h *tls.ClientHelloInfo) {
	t.Helper()
	if want := []uint16{tls.VersionTLS13}; !slices.Equal(h.SupportedVersions, want) {
		t.Errorf("versions %x, want %x", h.SupportedVersions, want)
	}
	if want := []string{"sunrpc"}; !slices.Equal(h.SupportedProtos, want) {
		t.Errorf("protocols %q, want %q", h.SupportedProtos, want)
	}
	for _, suite := range h.CipherSuites {
		if suite < tls.TLS_AES_128_GCM_SHA256 || suite > tls.TLS_CHACHA20_POLY1305_SHA256 {
			t.Errorf("cipher suite %#x is offered, want only those with encryption", suite)
		}
	}
	const preSharedKey, earlyData = 41, 42
	if slices.Contains(h.Extensions, preSharedKey) || slices.Contains(h.Extensions, earlyData) {
		t.Errorf("extensions %d, want neither %d nor %d", h.Extensions, preSharedKey, earlyData)
	}
}

// TestClientHandshakeTimeout: a server that says nothing, before its answer to the probe or after
// it, fails the handshake in time.
func TestClientHandshakeTimeout(t *testing.T) {
	for _, answers := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			go func() {
				probe := readCall(theirs)
				if answers {
					theirs.Write(answerTo(probe))
				}
				io.Copy(io.Discard, theirs)
			}()
			cfg := &ClientConfig{TLS: testPKI().client}
			began := time.Now()
			_, err := secure(t.Context(), ours, func() (*tlsStream, error) { return cfg.handshake(ours, "127.0.0.1:1") })
			var refused *TLSError
			if !errors.As(err, &refused) || refused.Failure != TLSTimeout {
				t.Errorf("answers %v: %v, want a TLSError of %v", answers, err, TLSTimeout)
			}
			if took := time.Since(began); took < handshakeTimeout || took > handshakeTimeout+10*time.Second {
				t.Errorf("answers %v: after %v, want %v", answers, took, handshakeTimeout)
			}
			ours.Close()
		})
	}
}

// TestClientChoosesCertificate: a client with several certificates presents the first one that the
// server can accept, and none if there is none.
func TestClientChoosesCertificate(t *testing.T) {
	p, other := testPKI(), newNamedCA("another")
	foreign, good := other.issue(clientTemplate("foreign")), p.mutual.Certificates[0]
	for _, c := range []struct {
		name string
		list []tls.Certificate
		want XprtSec
	}{
		{"the second", []tls.Certificate{foreign, good}, XprtMTLS},
		{"the first", []tls.Certificate{good, foreign}, XprtMTLS},
		{"none", []tls.Certificate{foreign}, XprtTLS},
	} {
		s, addr := tlsServer(t, p.server)
		d, err := DialTCP(bg, addr, ClientConfig{TLS: &tls.Config{RootCAs: p.ca.pool, Certificates: c.list}})
		must.Succeed(t, err)
		list, _ := s.Conns()
		if len(list) != 1 || list[0].Channel.Level() != c.want || d.Channel().Level() != c.want {
			t.Errorf("%s: client %v, server %+v, want %v at both", c.name, d.Channel().Level(), list, c.want)
		}
		d.Close()
	}
}

// TestServerALPN: a server chooses sunrpc among a client's protocols.
func TestServerALPN(t *testing.T) {
	conformance.Proves(t, "R9289-032", "R9289-033")
	_, addr := tlsServer(t, testPKI().server)
	nc := raw(t, addr)
	must.Succeed(t, probeTLS(nc))
	cfg := testPKI().client.Clone()
	cfg.ServerName, cfg.NextProtos = "server.test", []string{"h2", "sunrpc", "http/1.1"}
	tc := tls.Client(nc, cfg)
	must.Succeed(t, tc.Handshake())
	if got := tc.ConnectionState().NegotiatedProtocol; got != "sunrpc" {
		t.Errorf("protocol %q, want sunrpc", got)
	}
}

// TestClearBytesAfterAnswer: for a client, bytes in clear after the answer to its probe are no
// reply, and no part of the handshake.
func TestClearBytesAfterAnswer(t *testing.T) {
	conformance.Proves(t, "R9289-036", "R9289-037")
	more := make(chan []byte, 1)
	addr := scripted(t, func(_ int, nc net.Conn) {
		probe := readCall(nc)
		nc.Write(append(answerTo(probe), sumReply(probe, 0)...))
		rest, _ := io.ReadAll(nc)
		more <- rest
	})
	_, err := DialTCP(bg, addr, ClientConfig{TLS: testPKI().client})
	var refused *TLSError
	if !errors.As(err, &refused) || refused.Failure != TLSClearBytes {
		t.Errorf("error %v, want a TLSError of %v", err, TLSClearBytes)
	}
	checkTLSRecords(t, <-more, 22, 21) // after the ClientHello an alert may follow
}

// checkTLSRecords checks that b has nothing but TLS records of these types.
func checkTLSRecords(t *testing.T, b []byte, types ...byte) {
	t.Helper()
	const head = 5
	for rest := b; len(rest) > 0; {
		if len(rest) < head || !slices.Contains(types, rest[0]) {
			t.Fatalf("% x in % x, want TLS records of the types %d", rest, b, types)
		}
		rest = rest[min(head+int(binary.BigEndian.Uint16(rest[3:])), len(rest)):]
	}
}

// TestClearCallInSession: a call in clear to a server in a session is not run, and ends the
// connection.
func TestClearCallInSession(t *testing.T) {
	conformance.Proves(t, "R9289-038")
	p, _, addr := networks[2].start(t, ServerConfig{})
	nc := raw(t, addr)
	must.Succeed(t, probeTLS(nc))
	cfg, _ := clientTLS(testPKI().client, addr, alpnSunRPC)
	tc := tls.Client(nc, cfg)
	answerOf(t, tc, record(0))
	hold := record(0)
	hold[markLen+23] = tHold
	nc.Write(hold)
	got, err := io.ReadAll(nc)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection goes on")
	}
	checkTLSRecords(t, got, 21, 23)
	select {
	case <-p.entered:
		t.Error("the call is run")
	default:
	}
}

// TestClearReplyInSession: a client in a session does not take a reply in clear. It makes a new
// session and repeats the call.
func TestClearReplyInSession(t *testing.T) {
	conformance.Proves(t, "R9289-038")
	addr := scripted(t, func(n int, nc net.Conn) {
		nc.Write(answerTo(readCall(nc)))
		tc := tls.Server(nc, testPKI().server)
		tc.Write(sumReply(readCall(tc), 0)) // the call after the handshake
		call := readCall(tc)
		if n == 0 {
			nc.Write(sumReply(call, 666))
		} else {
			tc.Write(sumReply(call, 7))
		}
		io.Copy(io.Discard, nc)
	})
	c, err := DialTCP(bg, addr, ClientConfig{TLS: testPKI().client})
	must.Succeed(t, err)
	defer c.Close()
	sum := words{0}
	if err := c.Call(bg, testProc(tAdd), words{3, 4}, sum, nil, 0); err != nil || sum[0] != 7 {
		t.Errorf("ADD = %v, %v; want 7 from the second session", sum, err)
	}
}

// TestProbeOverUDP: a server with TLS has none over UDP: the probe is denied, and calls in clear go
// on.
func TestProbeOverUDP(t *testing.T) {
	conformance.Proves(t, "R9289-017")
	pc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must.Succeed(t, err)
	s := NewServer(ServerConfig{TLS: testPKI().serve}, newTestProgram().program())
	done := make(chan error, 1)
	go func() { done <- s.ServeUDP(pc) }()
	defer shutdown(t, s, done)
	c := dialUDP(t, pc.LocalAddr().(*net.UDPAddr).AddrPort())
	if got, want := spaced(exchange(t, c, probeBytes()[markLen:])), authDenied(oncrpc.AuthRejectedCred)[len("80000014 "):]; got != want {
		t.Errorf("probe over UDP:\n got %s\nwant %s", got, want)
	}
	if got := exchange(t, c, callBytes(8, tAdd, words{3, 4})); got[len(got)-1] != 7 {
		t.Errorf("ADD after it: % x, want 7", got)
	}
}

// A lockedLog collects log lines.
type lockedLog struct {
	mu sync.Mutex // guards all
	b  bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestAuditLog: the server's log has a line for each session, with its protection, and one for each
// failed handshake.
func TestAuditLog(t *testing.T) {
	conformance.Proves(t, "R9289-063")
	for _, c := range []struct {
		client *tls.Config
		want   []string
	}{
		{testPKI().client, []string{`msg="TLS session"`, "peer=127.0.0.1:", "xprtsec=tls", `version="TLS 1.3"`, "cipher=TLS_"}},
		{testPKI().mutual, []string{`msg="TLS session"`, "xprtsec=mtls", `client="CN=client.test"`}},
		{&tls.Config{RootCAs: newTestCA().pool}, []string{`msg="TLS handshake failed"`, "peer=127.0.0.1:", "reason=peer_alert"}},
	} {
		var log lockedLog
		p := newTestProgram()
		s := NewServer(ServerConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))}, p.program())
		addr, done, err := listenTLS(s, "127.0.0.1:0")
		must.Succeed(t, err)
		if c, err := DialTCP(bg, addr, ClientConfig{TLS: c.client}); err == nil {
			c.Close()
		}
		for end := time.Now().Add(time.Minute); !strings.Contains(log.String(), `msg="TLS`) && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		shutdown(t, s, done)
		if lines := strings.Count(log.String(), `msg="TLS`); lines != 1 {
			t.Errorf("%d lines about TLS, want 1:\n%s", lines, log.String())
		}
		for _, want := range c.want {
			if !strings.Contains(log.String(), want) {
				t.Errorf("no %s in:\n%s", want, log.String())
			}
		}
	}
}
