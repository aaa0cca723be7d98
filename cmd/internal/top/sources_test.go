// Sources of metrics: servers with metrics, with other answers, and without an answer.

package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/control"
	"github.com/nfsrdma/nfsrdma/cmd/internal/figures"
)

// TestAddresses: addresses as typed, and their URLs.
func TestAddresses(t *testing.T) {
	for typed, want := range map[string]string{"host": "http://host:9049/metrics", "host:1": "http://host:1/metrics", "::1": "http://[::1]:9049/metrics", "[::1]": "http://[::1]:9049/metrics",
		"[::1]:7": "http://[::1]:7/metrics", "fe80::1%eth0": "http://[fe80::1%25eth0]:9049/metrics", "https://h": "https://h/metrics", "http://h:1/": "http://h:1/metrics", "http://h/p/m": "http://h/p/m"} {
		if u, err := figuresURL(typed); err != nil || u.String() != want {
			t.Errorf("%s: %v, %v", typed, u, err)
		}
	}
	for _, wrong := range []string{"", ":1", "h:", "h/x", "nfs://h", "http://", "a b", "u@h", "h:1:2 ", "http://%zz"} {
		if u, err := figuresURL(wrong); err == nil {
			t.Errorf("%q: %v", wrong, u)
		}
	}
}

// answering returns a source whose server is handler.
func answering(t *testing.T, handler http.HandlerFunc) *Source {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s, err := Remote(server.URL)
	if err != nil {
		t.Fatalf("Remote: %v", err)
	}
	return s
}

func TestServersThatAreNone(t *testing.T) {
	for want, handler := range map[string]http.HandlerFunc{
		"404 Not Found": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"302 Found": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		},
		"no figures of nfsrdmad": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "up 1\n") },
		"in the text format":     func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>\x1b[31m\n") },
		"its figures do not end": func(w http.ResponseWriter, _ *http.Request) {
			w.Write(bytes.Repeat([]byte("#\n"), figures.MaxText/2+1))
		},
		"needs --metrics-addr ADDR": func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
	} {
		if _, err := answering(t, handler).Read(context.Background()); err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	begun, release := make(chan struct{}), make(chan struct{})
	silent := answering(t, func(http.ResponseWriter, *http.Request) { close(begun); <-release })
	defer close(release)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-begun; cancel() }()
	if _, err := silent.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a silent server: %v", err)
	}
}

// TestPasswordsAreNotTold: the password in a URL is sent to the server, and appears in no error.
func TestPasswordsAreNotTold(t *testing.T) {
	sent := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		sent <- password
		w.WriteHeader(403)
	}))
	defer server.Close()
	source, err := Remote("http://me:secret@" + server.Listener.Addr().String())
	if err != nil {
		t.Fatalf("Remote: %v", err)
	}
	if _, err := source.Read(context.Background()); err == nil || strings.Contains(err.Error()+source.Name, "secret") {
		t.Errorf("%v", err)
	}
	if got := <-sent; got != "secret" {
		t.Errorf("%q was sent", got)
	}
}

// TestLines: Lines writes as many reports as requested, as text and as JSON. The first snapshot has
// no interval and is not shown.
func TestLines(t *testing.T) {
	var asked atomic.Int32
	source := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1)%2 == 1 {
			io.WriteString(w, firstText)
		} else {
			io.WriteString(w, secondText)
		}
	})
	var text, asJSON bytes.Buffer
	o := &Options{Source: source, Interval: time.Millisecond, Count: 2, Order: "calls"}
	if err := Lines(context.Background(), &text, o); err != nil || strings.Count(text.String(), "nfsrdma top: ") != 2 || strings.Contains(text.String(), "\x1b") || asked.Load() != 3 {
		t.Errorf("%d questions, %v:\n%s", asked.Load(), err, &text)
	}
	o.JSON = true
	if err := Lines(context.Background(), &asJSON, o); err != nil || strings.Count(asJSON.String(), "\n") != 2 {
		t.Errorf("%v:\n%s", err, &asJSON)
	}
	var r Report
	if err := json.NewDecoder(&asJSON).Decode(&r); err != nil || len(r.Operations) == 0 || r.Server == "" {
		t.Errorf("%v: %+v", err, r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.Count, o.Interval = 0, time.Hour
	o.Source = &Source{"s", func(context.Context) (*Snapshot, error) { cancel(); return &Snapshot{}, nil }}
	if err := Lines(ctx, &text, o); err != nil {
		t.Errorf("Lines: %v", err)
	}
}

// TestLocal: a control socket gives metrics and clients. Without one, or with another version,
// there is an error.
func TestLocal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control")
	if _, err := Local(path).Read(context.Background()); err == nil || !strings.Contains(err.Error(), "start one with nfsrdmad serve") {
		t.Errorf("Read: %v, want %q", err, "start one with nfsrdmad serve")
	}
	old := true
	s, err := control.Listen(path, func(command string) (any, error) {
		switch {
		case command == "figures" && old:
			return nil, errors.New("the server does not know the command")
		case command == "figures":
			return map[string]any{"figures": figures.Set{nameCalls: {{Value: 7}}}}, nil
		}
		return map[string]any{"clients": nil}, nil
	})
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer s.Close()
	if _, err := Local(path).Read(context.Background()); err == nil || !strings.Contains(err.Error(), "does not know") {
		t.Errorf("Read: %v, want %q", err, "does not know")
	}
	old = false
	if now, err := Local(path).Read(context.Background()); err != nil || now.Figures.Sum(nameCalls) != 7 || now.Clients == nil {
		t.Errorf("%+v, %v", now, err)
	}
}
