// A proxy in front of a service, for what goes wrong between a server and it.

package juicefstest

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
)

// A Fault is what a Proxy does instead of passing a request on: nil: pass it on. It may answer w, or wait until the request's context
// ends; it reports whether it has answered.
type Fault func(w http.ResponseWriter, r *http.Request) (answered bool)

// A Proxy passes HTTP requests to a service.
type Proxy struct {
	Addr string

	fault atomic.Pointer[Fault]
}

// newProxy starts a proxy for the service at addr. It keeps the Host of requests, which their signatures cover. What it passes on it passes on to the
// end: a server that gives up an upload ends its connection, and versitygw would take what has come of the object for all of it, and put that in the
// place of the object that the next try has stored. S3 keeps no part of an object.
func newProxy(t testing.TB, addr string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String()}
	to := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: addr})
		r.Out.Host = r.In.Host
	}}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := p.fault.Load(); f != nil && (*f)(w, r) {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil { // who has sent it has gone
			Away(w, r)
			return
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context())) // one that can end, or ReverseProxy watches the connection
		defer cancel()
		whole := r.WithContext(ctx)
		whole.Body = io.NopCloser(bytes.NewReader(body))
		to.ServeHTTP(w, whole)
	})}
	done := make(chan struct{})
	go func() {
		_ = srv.Serve(l)
		close(done)
	}()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return p
}

// Break has requests fail from now on, until Mend.
func (p *Proxy) Break(f Fault) { p.fault.Store(&f) }

// Mend ends what Break began.
func (p *Proxy) Mend() { p.fault.Store(nil) }

// Away resets connections, as of a service that is not there.
func Away(w http.ResponseWriter, _ *http.Request) bool {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		c.Close()
	}
	return true
}

// Answer answers requests of a method with a status and a code of S3; method "": of all.
func Answer(method string, status int, code string) Fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if method != "" && r.Method != method {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>"+code+"</Code><Message>"+code+"</Message></Error>")
		return true
	}
}

// Hung answers no request until release is closed, when all are passed on.
func Hung(release <-chan struct{}) Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return false
	}
}

// Slow passes requests of a method on once release is closed.
func Slow(method string, release <-chan struct{}) Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == method {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		return false
	}
}
