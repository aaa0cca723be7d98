// Programs of the standard library over connections: TLS, and HTTP of versions 1 and 2.

package rconn

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// certificate returns a certificate for the name "peer", and a pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.Succeed(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"peer"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.Succeed(t, err)
	leaf, err := x509.ParseCertificate(der)
	must.Succeed(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestTLS: a session carries bytes both ways, and its close reaches the peer.
func TestTLS(t *testing.T) {
	overProviders(t, func(t *testing.T, network string) {
		cert, pool := certificate(t)
		x, y := pair(t, network, Config{})
		server := tls.Server(y, &tls.Config{Certificates: []tls.Certificate{cert}})
		served := make(chan error, 1)
		go func() {
			_, err := io.Copy(server, struct{ io.Reader }{server})
			if err == nil {
				err = server.CloseWrite()
			}
			served <- err
		}()
		client := tls.Client(x, &tls.Config{RootCAs: pool, ServerName: "peer"})
		want := random(6, 300_000)
		go func() {
			_, err := client.Write(want)
			if err == nil {
				err = client.CloseWrite()
			}
			if err != nil {
				t.Errorf("the client writes: %v", err)
			}
		}()
		got, err := io.ReadAll(client)
		must.Succeed(t, err, <-served)
		if !bytes.Equal(got, want) {
			t.Errorf("wrong bytes: %d of %d", len(got), len(want))
		}
	})
}

// TestHTTP: HTTP works in versions 1 and 2, in clear and over TLS, with bodies in both directions
// and several requests at once.
func TestHTTP(t *testing.T) {
	overProviders(t, func(t *testing.T, network string) {
		cert, pool := certificate(t)
		for _, c := range []struct {
			name, scheme, proto string
			set                 func(p *http.Protocols)
		}{
			{"h1", "http", "HTTP/1.1", func(p *http.Protocols) { p.SetHTTP1(true) }},
			{"h2c", "http", "HTTP/2.0", func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }},
			{"h1 TLS", "https", "HTTP/1.1", func(p *http.Protocols) { p.SetHTTP1(true) }},
			{"h2", "https", "HTTP/2.0", func(p *http.Protocols) { p.SetHTTP2(true) }},
		} {
			t.Run(c.name, func(t *testing.T) {
				var protocols http.Protocols
				c.set(&protocols)
				l, cfg := listen(t, network, Config{})
				server := &http.Server{Protocols: &protocols, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}},
					Handler: http.HandlerFunc(answer)}
				ended := make(chan error, 1)
				go func() {
					if c.scheme == "https" {
						ended <- server.ServeTLS(l, "", "")
					} else {
						ended <- server.Serve(l)
					}
				}()
				transport := &http.Transport{Protocols: &protocols, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "peer"},
					DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return Dial(ctx, network, addr, cfg) }}
				client := &http.Client{Transport: transport}
				echoes := make(chan error, 4)
				for i := range cap(echoes) {
					go func() {
						echoes <- echo(t, client, c.scheme+"://"+l.Addr().String(), c.proto, random(uint64(i), 200_000))
					}()
				}
				for range cap(echoes) {
					if err := <-echoes; err != nil {
						t.Error(err)
					}
				}
				transport.CloseIdleConnections()
				must.Succeed(t, server.Close())
				if err := <-ended; err != http.ErrServerClosed {
					t.Errorf("Serve: %v, want %v", err, http.ErrServerClosed)
				}
			})
		}
	})
}

// answer replies with the request's body.
func answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = w.Write(body)
}

// echo posts a body and compares the answer with it.
func echo(t *testing.T, client *http.Client, url, proto string, body []byte) error {
	response, err := client.Post(url, "text/plain", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if !bytes.Equal(got, body) {
		t.Errorf("wrong bytes: %d of %d", len(got), len(body))
	}
	if response.Proto != proto {
		t.Errorf("got %s, want %s", response.Proto, proto)
	}
	return err
}
