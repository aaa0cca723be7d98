// Repeated calls of clients with certificates.

package transport

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
)

// withCertificate returns a tape of a client that TLS has verified.
func withCertificate(cert *x509.Certificate) *tape {
	k := newTape("10.0.0.1")
	k.peer.secure.Store(&Channel{TLS: &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{cert}}}})
	return k
}

// TestCallsOfOtherCertificatesAreNoDuplicates: clients behind one address do not get each other's
// replies. A renewed certificate has the same names and is the same client's.
func TestCallsOfOtherCertificatesAreNoDuplicates(t *testing.T) {
	ca, other := newTestCA(), newTestCA()
	named := func(by *testCA, subject string, dns ...string) *x509.Certificate {
		return by.issue(&x509.Certificate{Subject: pkix.Name{CommonName: subject}, DNSNames: dns}).Leaf
	}
	foreign := named(other, "pc", "a.test")
	foreign.RawIssuer = foreign.RawSubject // of an authority with another name
	s, p := newTestServer(t)
	for i, c := range []struct {
		cert *x509.Certificate
		runs uint32
	}{
		{named(ca, "pc", "a.test"), 1},
		{named(ca, "pc", "a.test"), 1},
		{named(ca, "pc", "b.test"), 2},
		{named(ca, "laptop", "a.test"), 3},
		{named(ca, "pc"), 4},
		{foreign, 5},
	} {
		k := withCertificate(c.cert)
		k.do(s, callOf(7, tCount, 1))
		k.cut()
		if got := p.runs.Load(); got != c.runs {
			t.Errorf("after client %d it ran %d times, want %d", i, got, c.runs)
		}
	}
	newTape("10.0.0.1").do(s, callOf(7, tCount, 1))
	if got := p.runs.Load(); got != 6 {
		t.Errorf("after a client in clear it ran %d times, want 6", got)
	}
}

// TestCallOfAnotherCertificateWaitsForNone: a call does not wait for an equal running call of
// another client.
func TestCallOfAnotherCertificateWaitsForNone(t *testing.T) {
	ca := newTestCA()
	for _, proc := range []uint32{tHold, tOver} {
		s, p := newTestServer(t)
		one := withCertificate(ca.issue(clientTemplate("a")).Leaf)
		two := withCertificate(ca.issue(clientTemplate("b")).Leaf)
		one.start(s, callOf(7, proc, 0))
		<-p.entered
		one.cut()
		two.start(s, callOf(7, proc, 0))
		p.release()
		<-one.ends
		if got := <-two.ends; got.how != "reply" {
			t.Errorf("procedure %d: the other client's call ended by %s, want reply", proc, got.how)
		}
		if got := p.runs.Load(); got != 2 {
			t.Errorf("procedure %d: ran %d times, want 2", proc, got)
		}
	}
}
