// The client's side of RPC-with-TLS: servers that it does not use, and new sessions (RFC 9289).

package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// TestClientRefusesServers: each reason not to use a server is one clear error.
func TestClientRefusesServers(t *testing.T) {
	conformance.Proves(t, "R9289-010", "R9289-013", "R9289-020", "R9289-024", "R9289-049", "R9289-055", "R9289-056")
	p, other := testPKI(), newTestCA()
	expired := serverTemplate()
	expired.NotBefore, expired.NotAfter = time.Unix(0, 0), time.Unix(1, 0)
	named := func(cert tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{cert}} }
	require := p.server.Clone()
	require.ClientAuth = tls.RequireAndVerifyClientCert
	revoked := p.client.Clone()
	revoked.VerifyConnection = func(s tls.ConnectionState) error { return errors.New("revoked") }
	old := named(p.ca.issue(serverTemplate()))
	old.MaxVersion = tls.VersionTLS12
	for _, c := range []struct {
		name   string
		server *tls.Config
		client *tls.Config
		why    TLSFailure
		want   string
	}{
		{"another name", named(p.ca.issue(&x509.Certificate{DNSNames: []string{"other.test"}})), p.client, TLSName, "its certificate is for another name"},
		{"unknown authority", named(other.issue(serverTemplate())), p.client, TLSUnknownCA, "its certificate is from an unknown authority"},
		{"expired", named(p.ca.issue(expired)), p.client, TLSExpired, "its certificate has expired"},
		{"revoked", p.server, revoked, TLSCertificate, "its certificate is refused: revoked"},
		{"old version", old, p.client, TLSPeer, "it refused the TLS handshake: protocol version not supported"},
		{"the server requires a certificate", require, p.client, TLSPeer, "it refused the TLS handshake: certificate required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := scripted(t, func(n int, nc net.Conn) {
				nc.Write(answerTo(readCall(nc)))
				tc := tls.Server(nc, c.server)
				if err := tc.Handshake(); err == nil {
					io.Copy(io.Discard, tc)
				}
				tc.CloseWrite()
				io.Copy(io.Discard, nc)
			})
			_, err := DialTCP(bg, addr, ClientConfig{TLS: c.client})
			var refused *TLSError
			if !errors.As(err, &refused) || refused.Failure != c.why {
				t.Fatalf("error %v, want a TLSError of %v", err, c.why)
			}
			if want := "rpc server " + addr + " is not used: " + c.want; !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %q, want %q", err, want)
			}
			var auth *AuthError
			if !errors.As(err, &auth) {
				t.Errorf("error %v is no AuthError", err)
			}
		})
	}
}

// answerTo returns the answer to a probe's record.
func answerTo(probe []byte) []byte {
	var d dispatcher
	return d.probeAnswer(probe)
}

// TestProbeAnswersThatStopClients: after any other answer than the RFC's the client sends nothing
// more.
func TestProbeAnswersThatStopClients(t *testing.T) {
	conformance.Proves(t, "R9289-012")
	good := func(probe []byte) []byte { return answerTo(probe) }
	change := func(at int, v byte) func([]byte) []byte {
		return func(probe []byte) []byte {
			b := good(probe)
			b[at] = v
			return b
		}
	}
	denied := func(probe []byte) []byte {
		e := xdr.NewEncoder(nil)
		h := oncrpc.ReplyHeader{XID: xdr.NewDecoder(probe).Uint32(), Denied: true, Reject: oncrpc.AuthError, Auth: oncrpc.AuthRejectedCred}
		h.EncodeXDR(e)
		return fragment(e.Bytes(), true)
	}
	plain := func(probe []byte) []byte { return sumReply(probe, 0)[:28] }
	for _, c := range []struct {
		name   string
		answer func(probe []byte) []byte
		why    TLSFailure
	}{
		{"denied", denied, TLSNotOffered},
		{"another token", change(markLen+20, 's'), TLSNotOffered},
		{"another flavor", change(markLen+15, 1), TLSNotOffered},
		{"another XID", func(p []byte) []byte { b := good(p); b[markLen] ^= 1; return b }, TLSProbeReply},
		{"a call", change(markLen+7, 0), TLSProbeReply},
		{"not the last fragment", change(0, 0), TLSProbeReply},
		{"too long", change(2, 3), TLSProbeReply},
		{"shorter than it says", func(p []byte) []byte { return good(p)[:20] }, TLSCutOff},
		{"nothing", func(p []byte) []byte { return nil }, TLSCutOff},
		{"no verifier", func(p []byte) []byte { b := plain(p); b[3] = 24; return b }, TLSNotOffered},
	} {
		t.Run(c.name, func(t *testing.T) {
			more := make(chan []byte, 1)
			addr := scripted(t, func(n int, nc net.Conn) {
				nc.Write(c.answer(readCall(nc)))
				nc.(*net.TCPConn).CloseWrite()
				rest, _ := io.ReadAll(nc)
				more <- rest
			})
			_, err := DialTCP(bg, addr, ClientConfig{TLS: testPKI().client})
			var refused *TLSError
			if !errors.As(err, &refused) || refused.Failure != c.why {
				t.Errorf("error %v, want a TLSError of %v", err, c.why)
			}
			if rest := <-more; len(rest) > 0 {
				t.Errorf("the client sent % x", rest)
			}
		})
	}
}

// TestProbeReplyTruncated: a truncated answer does not count as an answer.
func TestProbeReplyTruncated(t *testing.T) {
	conformance.Proves(t, "R9289-009", "R9289-012")
	answer := answerTo(probeBytes()[markLen:])[markLen:]
	if err := checkProbeReply(answer, 7); err != nil {
		t.Fatalf("the answer: %v", err)
	}
	for n := range answer {
		if checkProbeReply(answer[:n], 7) == nil {
			t.Errorf("its first %d bytes are accepted", n)
		}
	}
	if checkProbeReply(append(answer, 0, 0, 0, 0), 7) == nil {
		t.Error("accepted with more bytes")
	}
}

// TestCutHandshakes: a connection cut after any part of the server's first flight is one clear
// error, and the next attempt succeeds.
func TestCutHandshakes(t *testing.T) {
	for _, after := range []int{0, 1, 5, 100, 600} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			addr := scripted(t, func(n int, nc net.Conn) {
				nc.Write(answerTo(readCall(nc)))
				tc := tls.Server(&cutConn{Conn: nc, left: after}, testPKI().server)
				tc.Handshake()
			})
			_, err := DialTCP(bg, addr, ClientConfig{TLS: testPKI().client})
			var refused *TLSError
			if !errors.As(err, &refused) || refused.Failure != TLSCutOff {
				t.Errorf("error %v, want a TLSError of %v", err, TLSCutOff)
			}
		})
	}
}

// A cutConn closes after some written bytes.
type cutConn struct {
	net.Conn
	left int
}

func (c *cutConn) Write(b []byte) (int, error) {
	n := min(len(b), c.left)
	c.left -= n
	c.Conn.Write(b[:n])
	if n < len(b) {
		c.Conn.Close()
		return n, io.ErrClosedPipe
	}
	return n, nil
}

// TestServersThatLeave: a server that closes the connection after the client's certificate counts
// as having refused it. Without a certificate the connection is lost.
func TestServersThatLeave(t *testing.T) {
	for _, c := range []struct {
		client *tls.Config
		want   string
	}{
		{testPKI().mutual, "is not used: it ended the connection after it got this client's certificate, and gave no reason"},
		{testPKI().client, "does not answer: "},
	} {
		addr := scripted(t, func(n int, nc net.Conn) {
			nc.Write(answerTo(readCall(nc)))
			cfg := testPKI().server.Clone()
			cfg.ClientAuth = tls.RequestClientCert
			tls.Server(nc, cfg).Handshake()
			nc.Close()
		})
		if _, err := DialTCP(bg, addr, ClientConfig{TLS: c.client, Service: "nfs"}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// TestReconnectsWithTLS: a client whose connection is cut makes a new session, and refuses a server
// that has lost its TLS meanwhile.
func TestReconnectsWithTLS(t *testing.T) {
	conformance.Proves(t, "R9289-016", "R9289-029", "R9289-066")
	n := networks[2]
	_, s, addr := n.start(t, ServerConfig{})
	c := n.client(t, addr, ClientConfig{CallTimeout: 30 * time.Second})
	null := func(ctx context.Context) error { return c.Call(ctx, testProc(tNull), nil, nil, nil, 0) }
	for range 3 {
		cut(s)
		if err := null(bg); err != nil {
			t.Fatalf("call: %v", err)
		}
	}
	if ch := c.Channel(); ch.Level() != XprtTLS || ch.TLS.Version != tls.VersionTLS13 {
		t.Errorf("channel %+v, want TLS 1.3", ch)
	}
	if f := c.Figures(); f.Xprtsec != "tls" || f.Cipher != tls.CipherSuiteName(c.Channel().TLS.CipherSuite) {
		t.Errorf("figures: got %s with %s, want tls with its cipher", f.Xprtsec, f.Cipher)
	}
	s.cfg.TLS = nil
	cut(s)
	ctx, cancel := context.WithTimeout(bg, 2*time.Second)
	defer cancel()
	err := null(ctx)
	var refused *TLSError
	if !errors.As(err, &refused) || refused.Failure != TLSNotOffered {
		t.Errorf("call to a server without TLS: %v, want a TLSError of %v", err, TLSNotOffered)
	}
}
