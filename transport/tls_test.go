// Certificates for tests, and the network that runs every test of calls over TLS.

package transport

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
)

// A testCA signs certificates.
type testCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newTestCA() *testCA { return newNamedCA("authority") }

func newNamedCA(name string) *testCA {
	ca := &testCA{key: newTestKey(), pool: x509.NewCertPool()}
	ca.cert = ca.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, &ca.key.PublicKey)
	ca.pool.AddCert(ca.cert)
	return ca
}

func newTestKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

// sign completes a template: serial number, subject and, unless set, validity.
func (ca *testCA) sign(template *x509.Certificate, pub *ecdsa.PublicKey) *x509.Certificate {
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.Subject.CommonName == "" {
		template.Subject = pkix.Name{CommonName: "test"}
	}
	if template.NotAfter.IsZero() {
		// This holds within testing/synctest too, with its clock of the year 2000.
		template.NotBefore, template.NotAfter = time.Unix(0, 0), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	parent := ca.cert
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, ca.key)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return cert
}

// issue returns a certificate with its key.
func (ca *testCA) issue(template *x509.Certificate) tls.Certificate {
	key := newTestKey()
	cert := ca.sign(template, &key.PublicKey)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// serverTemplate returns a server certificate for the tests' address.
func serverTemplate() *x509.Certificate {
	return &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"server.test"}}
}

func clientTemplate(name string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

// testPKI is the authority, made once, and both ends' configurations.
var testPKI = sync.OnceValue(func() *pki {
	p := &pki{ca: newTestCA()}
	p.server = &tls.Config{Certificates: []tls.Certificate{p.ca.issue(serverTemplate())}, ClientCAs: p.ca.pool}
	p.client = &tls.Config{RootCAs: p.ca.pool}
	p.mutual = &tls.Config{RootCAs: p.ca.pool, Certificates: []tls.Certificate{p.ca.issue(clientTemplate("client.test"))}}
	return p
})

type pki struct {
	ca                     *testCA
	server, client, mutual *tls.Config
}

func (p *pki) serve() *tls.Config { return p.server }

// listenTLS does the same as listenTCP, for a server with TLS.
func listenTLS(s *Server, addr string) (string, chan error, error) {
	s.cfg.TLS = testPKI().serve
	return listenTCP(s, addr)
}

func dialTLS(ctx context.Context, addr string, cfg ClientConfig) (*Client, error) {
	cfg.TLS = testPKI().client
	return DialTCP(ctx, addr, cfg)
}

// listenRDMATLS does the same as listenRDMA, for a server with TLS.
func listenRDMATLS(s *Server, addr string) (string, chan error, error) {
	s.cfg.TLS = testPKI().serve
	return listenRDMA(s, addr)
}

func dialRDMATLS(ctx context.Context, addr string, cfg ClientConfig) (*Client, error) {
	cfg.TLS = testPKI().client
	return DialRDMA(ctx, iwarp.Open(rnic.DeviceConfig{}), addr, cfg)
}

// tlsServer serves the test program with the configuration.
func tlsServer(t *testing.T, cfg *tls.Config) (*Server, string) {
	t.Helper()
	_, s, addr := networks[0].start(t, ServerConfig{TLS: func() *tls.Config { return cfg }})
	return s, addr
}
