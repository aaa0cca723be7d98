// The server's side of RPC-with-TLS: the probe's bytes, and handshakes that fail (RFC 9289).

package transport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A probe for the test program with XID 7, and the answer, both with marks.
const (
	goldenProbe  = "80000028 00000007 00000000 00000002 20000a11 00000003 00000000 00000007 00000000 00000000 00000000"
	goldenAnswer = "80000020 00000007 00000001 00000000 00000000 00000008 53544152 54544c53 00000000"
)

func probeBytes() []byte {
	e := xdr.NewEncoder(nil)
	e.Uint32(0)
	h := oncrpc.CallHeader{XID: 7, Prog: testProg, Vers: testVers, Cred: oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorTLS}}
	h.EncodeXDR(e)
	e.SetUint32(0, uint32(e.Len()-markLen)|lastFragment)
	return e.Bytes()
}

// answerOf sends a record in clear and returns the answer's record.
func answerOf(t *testing.T, nc net.Conn, call []byte) []byte {
	t.Helper()
	go nc.Write(call)
	nc.SetReadDeadline(time.Now().Add(time.Minute))
	b := make([]byte, markLen)
	if _, err := io.ReadFull(nc, b); err != nil {
		t.Fatalf("no answer: %v", err)
	}
	b = append(b, make([]byte, b[3])...)
	if _, err := io.ReadFull(nc, b[markLen:]); err != nil {
		t.Fatalf("half an answer: %v", err)
	}
	return b
}

func authDenied(stat oncrpc.AuthStat) string {
	return fmt.Sprintf("80000014 00000007 00000001 00000001 00000001 %08x", uint32(stat))
}

func spaced(b []byte) string {
	var s []string
	for chunk := range slices.Chunk(b, 4) {
		s = append(s, hex.EncodeToString(chunk))
	}
	return strings.Join(s, " ")
}

// TestTLSProbeAnswers: each call with AUTH_TLS gets the RFC's answer, byte by byte.
func TestTLSProbeAnswers(t *testing.T) {
	conformance.Proves(t, "R9289-002", "R9289-006", "R9289-007", "R9289-008", "R9289-014", "R9289-017")
	probe := probeBytes()
	with := func(at int, v byte) []byte {
		b := bytes.Clone(probe)
		b[at] = v
		return b
	}
	longer := append(bytes.Clone(probe), 0, 0, 0, 0)
	longer[3] += 4
	for _, c := range []struct {
		name string
		call []byte
		tls  bool
		want string
	}{
		{"probe", probe, true, goldenAnswer},
		{"of an unknown program", with(markLen+15, 1), true, "80000020 00000007 00000001 00000000 00000000 00000008 53544152 54544c53 00000001"},
		{"of an unknown version", with(markLen+19, 9), true, "80000028 00000007 00000001 00000000 00000000 00000008 53544152 54544c53 00000002 00000003 00000003"},
		{"without TLS", probe, false, authDenied(oncrpc.AuthRejectedCred)},
		{"of another procedure", with(markLen+23, tAdd), true, authDenied(oncrpc.AuthBadCred)},
		{"of another procedure, without TLS", with(markLen+23, tAdd), false, authDenied(oncrpc.AuthBadCred)},
		{"with a verifier", with(markLen+35, 1), true, authDenied(oncrpc.AuthRejectedCred)},
		{"with arguments", longer, true, authDenied(oncrpc.AuthRejectedCred)},
	} {
		synctest.Test(t, func(t *testing.T) {
			var cfg ServerConfig
			if c.tls {
				cfg.TLS = testPKI().serve
			}
			s := NewServer(cfg, newTestProgram().program())
			defer s.Shutdown(t.Context())
			nc := piped(t, s)
			defer nc.Close()
			if got := spaced(answerOf(t, nc, c.call)); got != c.want {
				t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
			}
		})
	}
	if got := spaced(probe); got != goldenProbe {
		t.Errorf("probe:\n got %s\nwant %s", got, goldenProbe)
	}
}

// TestTLSProbeIsExact: no other record begins a handshake, even if it is the probe cut short, or
// with one bit changed.
func TestTLSProbeIsExact(t *testing.T) {
	conformance.Proves(t, "R9289-004", "R9289-005")
	probe := probeBytes()[markLen:]
	if !isTLSProbe(probe) {
		t.Fatal("the probe is none")
	}
	for n := range probe {
		if isTLSProbe(probe[:n]) {
			t.Errorf("its first %d bytes are a probe", n)
		}
	}
	free := func(i int) bool { return i < 4 || i >= 12 && i < 20 } // xid, program, version
	for i := range probe {
		b := bytes.Clone(probe)
		b[i] ^= 0x40
		if isTLSProbe(b) != free(i) {
			t.Errorf("with another byte %d: a probe: %v, want %v", i, !free(i), free(i))
		}
	}
}

// handshakeFailures returns the server's counts that are not zero.
func handshakeFailures(s *Server) string {
	var list []string
	for _, c := range s.Figures().Handshakes {
		if c.Count > 0 {
			list = append(list, fmt.Sprint(c.Result, " ", c.Count))
		}
	}
	return strings.Join(list, ", ")
}

// TestClearBytesAfterProbe: bytes in clear after the probe are discarded without a reply and end
// the connection, whether they come before the probe's answer or after it.
func TestClearBytesAfterProbe(t *testing.T) {
	conformance.Proves(t, "R9289-036", "R9289-037")
	for _, together := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := NewServer(ServerConfig{TLS: testPKI().serve}, newTestProgram().program())
			defer s.Shutdown(t.Context())
			nc := piped(t, s)
			defer nc.Close()
			if together {
				go nc.Write(append(probeBytes(), record(0)...))
			} else {
				answerOf(t, nc, probeBytes())
				go nc.Write(record(0))
			}
			// The only bytes that may come are a TLS alert.
			got, _ := io.ReadAll(nc)
			if len(got) > 0 && (together || got[0] != 21) {
				t.Errorf("together %v: answer % x", together, got)
			}
			synctest.Wait()
			if got, want := handshakeFailures(s), "clear_bytes 1"; got != want {
				t.Errorf("together %v: counts %q, want %q", together, got, want)
			}
			if n := s.connections(); n != 0 {
				t.Errorf("together %v: %d connections are left", together, n)
			}
		})
	}
}

func (s *Server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// TestHandshakeTimeout: a client that probes and stops is disconnected in time, and does not count
// as a call.
func TestHandshakeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(ServerConfig{TLS: testPKI().serve}, newTestProgram().program())
		defer s.Shutdown(t.Context())
		nc := piped(t, s)
		defer nc.Close()
		answerOf(t, nc, probeBytes())
		began := time.Now()
		list, _ := s.Conns()
		if len(list) != 1 || list[0].Calls != 0 {
			t.Errorf("connections %+v, want one without calls", list)
		}
		nc.SetReadDeadline(time.Time{})
		_, err := io.ReadAll(nc)
		if took := time.Since(began); took != handshakeTimeout || err != nil {
			t.Errorf("cut after %v, %v; want %v", took, err, handshakeTimeout)
		}
		synctest.Wait()
		if got, want := handshakeFailures(s), "timeout 1"; got != want {
			t.Errorf("counts %q, want %q", got, want)
		}
	})
}

// TestShutdownEndsHandshake: a half handshake does not delay a shutdown.
func TestShutdownEndsHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(ServerConfig{TLS: testPKI().serve}, newTestProgram().program())
		nc := piped(t, s)
		defer nc.Close()
		answerOf(t, nc, probeBytes())
		began := time.Now()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("Shutdown took %v", took)
		}
	})
}

// TestProbeWaitsForCallsInClear: the answer to a probe follows the replies to the calls before it,
// so none of these is sent during the handshake.
func TestProbeWaitsForCallsInClear(t *testing.T) {
	conformance.Proves(t, "R9289-035")
	p, _, addr := networks[0].start(t, ServerConfig{TLS: testPKI().serve})
	nc := raw(t, addr)
	hold := record(0)
	hold[markLen+23] = tHold
	nc.Write(hold)
	<-p.entered
	nc.Write(probeBytes())
	nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := nc.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("an answer of the probe before the call's: %v", err)
	}
	p.release()
	nc.SetReadDeadline(time.Now().Add(time.Minute))
	rd := newRecordReader(nc, tcpWindow, 1<<20)
	for _, xid := range []byte{1, 7} {
		rec, err := rd.next()
		if err != nil || rec.B[3] != xid {
			t.Fatalf("reply %v, %v; want XID %d", rec, err, xid)
		}
		rec.Put()
	}
	if rd.more() {
		t.Error("more than the two replies")
	}
}

// TestProbeWithinSession: a probe in a TLS session is refused, and the session continues.
func TestProbeWithinSession(t *testing.T) {
	conformance.Proves(t, "R9289-015", "R9289-019", "R9289-027", "R9289-032")
	s, addr := tlsServer(t, testPKI().server)
	nc := raw(t, addr)
	if err := probeTLS(nc); err != nil {
		t.Fatalf("probe: %v", err)
	}
	cfg, _ := clientTLS(testPKI().mutual, addr, alpnSunRPC)
	tc := tls.Client(nc, cfg)
	if got, want := spaced(answerOf(t, tc, probeBytes())), authDenied(oncrpc.AuthBadCred); got != want {
		t.Errorf("probe within a session:\n got %s\nwant %s", got, want)
	}
	if got, want := spaced(answerOf(t, tc, record(0))), "80000018 00000001 00000001 00000000 00000000 00000000 00000000"; got != want {
		t.Errorf("call after it:\n got %s\nwant %s", got, want)
	}
	list, _ := s.Conns()
	if len(list) != 1 || list[0].Channel.Level() != XprtMTLS {
		t.Errorf("connections %+v, want one with mtls", list)
	}
	if got, want := handshakeFailures(s), "mtls 1"; got != want {
		t.Errorf("counts %q, want %q", got, want)
	}
	if got := tc.ConnectionState().NegotiatedProtocol; got != alpnSunRPC {
		t.Errorf("ALPN %q, want %q", got, alpnSunRPC)
	}
}

// handshakeWith probes addr and does a handshake as cfg says; the error is the client's, with the
// first read's.
func handshakeWith(t *testing.T, addr string, cfg *tls.Config) error {
	t.Helper()
	nc := raw(t, addr)
	if err := probeTLS(nc); err != nil {
		t.Fatalf("probe: %v", err)
	}
	nc.SetDeadline(time.Now().Add(time.Minute))
	tc := tls.Client(nc, cfg)
	if err := tc.Handshake(); err != nil {
		nc.Close()
		return err
	}
	tc.Write(record(0))
	_, err := tc.Read(make([]byte, 64))
	return err
}

// TestServerRefusesHandshakes: other versions and protocols, and invalid certificates, are refused
// and counted by reason; a client without ALPN is accepted.
func TestServerRefusesHandshakes(t *testing.T) {
	conformance.Proves(t, "R9289-020", "R9289-024", "R9289-033", "R9289-049", "R9289-058")
	p, other := testPKI(), newTestCA()
	expired := clientTemplate("old")
	expired.NotBefore, expired.NotAfter = time.Unix(0, 0), time.Unix(1, 0)
	base := func(change func(c *tls.Config)) *tls.Config {
		c := p.client.Clone()
		c.ServerName, c.NextProtos = "server.test", []string{alpnSunRPC}
		change(c)
		return c
	}
	require := p.server.Clone()
	require.ClientAuth = tls.RequireAndVerifyClientCert
	revoked := p.server.Clone()
	revoked.VerifyConnection = func(s tls.ConnectionState) error { return errors.New("revoked") }
	for _, c := range []struct {
		name   string
		server *tls.Config
		client *tls.Config
		want   string
	}{
		{"TLS 1.2", p.server, base(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), "version 1"},
		{"another protocol", p.server, base(func(c *tls.Config) { c.NextProtos = []string{"h2"} }), "protocol 1"},
		{"no ALPN", p.server, base(func(c *tls.Config) { c.NextProtos = nil }), "tls 1"},
		{"unknown authority", p.server, base(func(c *tls.Config) { c.GetClientCertificate = give(other.issue(clientTemplate("x"))) }), "unknown_authority 1"},
		{"expired", p.server, base(func(c *tls.Config) { c.GetClientCertificate = give(p.ca.issue(expired)) }), "expired 1"},
		{"a server's certificate", p.server, base(func(c *tls.Config) {
			c.GetClientCertificate = give(p.ca.issue(&x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}))
		}), "certificate 1"},
		{"none where one is required", require, base(func(c *tls.Config) {}), "certificate 1"},
		{"revoked", revoked, base(func(c *tls.Config) {}), "certificate 1"},
		{"refused by the client", p.server, base(func(c *tls.Config) { c.ServerName = "other.test" }), "peer_alert 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, addr := tlsServer(t, c.server)
			err := handshakeWith(t, addr, c.client)
			if ok := strings.HasPrefix(c.want, "tls"); ok != (err == nil) {
				t.Errorf("client's error %v", err)
			}
			for end := time.Now().Add(time.Minute); handshakeFailures(s) == "" && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			if got := handshakeFailures(s); got != c.want {
				t.Errorf("counts %q, want %q (client: %v)", got, c.want, err)
			}
		})
	}
}

// A ticketCache reports the tickets of a server.
type ticketCache struct{ tickets int }

func (c *ticketCache) Get(string) (*tls.ClientSessionState, bool) { return nil, false }
func (c *ticketCache) Put(string, *tls.ClientSessionState)        { c.tickets++ }

// TestNoSessionTickets: each session begins with a whole handshake, which checks the certificates.
func TestNoSessionTickets(t *testing.T) {
	conformance.Proves(t, "R9289-062")
	_, addr := tlsServer(t, testPKI().server)
	cache := &ticketCache{}
	cfg := testPKI().client.Clone()
	cfg.ServerName, cfg.ClientSessionCache = "server.test", cache
	nc := raw(t, addr)
	if err := probeTLS(nc); err != nil {
		t.Fatalf("probe: %v", err)
	}
	answerOf(t, tls.Client(nc, cfg), record(0))
	if cache.tickets > 0 {
		t.Errorf("%d session tickets", cache.tickets)
	}
}

// give makes a client present a certificate that the server did not ask for.
func give(cert tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
}
