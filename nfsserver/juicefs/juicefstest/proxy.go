// A proxy in front of a service, to inject faults.

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

// A Fault is called before a request is passed on. It may reply through w, or wait until the
// request's context ends. It reports whether it has replied; if not, the request is passed on. A
// nil Fault does nothing.
type Fault func(w http.ResponseWriter, r *http.Request) (answered bool)

// A Proxy passes HTTP requests to a service.
type Proxy struct {
	Addr string

	fault atomic.Pointer[Fault]
}

// newProxy starts a proxy for the service at addr. It keeps the Host of requests, because their
// signatures cover it. It reads each request completely before passing it on. A server that
// abandons an upload closes its connection; versitygw would store the partial object, possibly over
// the complete one of the next attempt. S3 never stores a partial object.
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
		if err != nil { // the sender is gone
			Away(w, r)
			return
		}
		// Without a context that can end, ReverseProxy would watch the connection.
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
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

// Break makes requests fail until Mend.
func (p *Proxy) Break(f Fault) { p.fault.Store(&f) }

// Mend ends Break.
func (p *Proxy) Mend() { p.fault.Store(nil) }

// Away resets connections, like an absent service.
func Away(w http.ResponseWriter, _ *http.Request) bool {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		c.Close()
	}
	return true
}

// Answer replies to requests of a method with a status and an S3 error code; method "": all
// requests.
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

// Hung blocks all requests until release is closed, then passes them on.
func Hung(release <-chan struct{}) Fault {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return false
	}
}

// Slow blocks requests of a method until release is closed.
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
