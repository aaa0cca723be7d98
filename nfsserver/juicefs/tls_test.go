// An object storage whose certificate is rejected, or that rejects ours.

package juicefs

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/juicedata/juicefs/pkg/object"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// A lines is a log hook that keeps the lines with a given text.
type lines struct {
	part string
	mu   sync.Mutex
	got  []string // the lines, guarded by mu
}

func (l *lines) take(e machine.LogLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.Contains(e.Message, l.part) {
		l.got = append(l.got, e.Message)
	}
}

// TestRefusedCertificateIsNoSilence: when a certificate is refused, clients get an error instead of
// waiting, and the log has one line.
func TestRefusedCertificateIsNoSilence(t *testing.T) {
	serve := func(change func(*httptest.Server), start func(*httptest.Server)) string {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		change(s)
		start(s)
		t.Cleanup(s.Close)
		return "https://" + s.Listener.Addr().String()
	}
	whatever := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer whatever.CloseIdleConnections()
	same := func(*httptest.Server) {}
	for name, c := range map[string]struct {
		ask  func(url string) error
		url  string
		part string
	}{
		"certificate of nobody we trust": {func(url string) error {
			s3, err := object.CreateStorage("s3", url+"/bucket", "access", "secret", "")
			if err != nil {
				t.Fatalf("object.CreateStorage: %v", err)
			}
			return s3.Put(t.Context(), "key", strings.NewReader("content"))
		}, serve(same, (*httptest.Server).StartTLS), "certificate"},
		"we have none": {func(url string) error {
			res, err := whatever.Get(url)
			if err == nil {
				res.Body.Close()
			}
			return err
		}, serve(func(s *httptest.Server) {
			s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}
		}, (*httptest.Server).StartTLS), "tls: "},
	} {
		t.Run(name, func(t *testing.T) {
			said := &lines{part: c.part}
			err := c.ask(c.url)
			if err == nil {
				t.Fatal("it is accepted")
			}
			r := &watchedStorage{ObjectStorage: &refuser{err: err}, outage: outage{log: machine.LogTo(said.take)}}
			for range 3 {
				if got := r.Put(t.Context(), "key", nil); got == nil {
					t.Errorf("%v: Put succeeds", err)
				}
				if r.away() || r.short() {
					t.Errorf("%v: away %v, full %v, want neither", err, r.away(), r.short())
				}
			}
			said.mu.Lock()
			defer said.mu.Unlock()
			if len(said.got) != 1 || !strings.Contains(said.got[0], err.Error()) {
				t.Errorf("the log says %q", said.got)
			}
		})
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	conn, err := tls.Dial("tcp", plain.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		conn.Close()
	}
	if unanswered(err, 0) || !noTLS(err) {
		t.Errorf("no TLS at all: %v", err)
	}
}
