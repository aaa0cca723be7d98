// Sources of snapshots: a server's metrics over HTTP, or the control socket of a local server.

package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/control"
	"github.com/nfsrdma/nfsrdma/cmd/internal/figures"
)

// DefaultPort is the port in all examples of --metrics-addr.
const DefaultPort = "9049"

// A Source reads snapshots of one server.
type Source struct {
	Name string // the server's name, for display
	Read func(context.Context) (*Snapshot, error)
}

// Local returns a source for the server with the control socket path.
func Local(path string) *Source {
	return &Source{hostname(), func(ctx context.Context) (*Snapshot, error) {
		var f struct {
			Figures figures.Set `json:"figures"`
		}
		var c struct {
			Clients []Client `json:"clients"`
		}
		err := control.Ask(ctx, path, "figures", &f)
		if err == nil {
			err = control.Ask(ctx, path, "clients", &c)
		}
		if errors.Is(err, control.ErrNoServer) {
			err = fmt.Errorf("%w: start one with nfsrdmad serve, or name its socket with --control; run this as root, or as the user of the server", err)
		}
		if err != nil {
			return nil, err
		}
		if c.Clients == nil {
			c.Clients = []Client{}
		}
		return &Snapshot{time.Now(), f.Figures, c.Clients}, nil
	}}
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}

// answerWait limits the time to receive the metrics.
const answerWait = 10 * time.Second

// Remote returns a source for the server with a --metrics-addr. server is HOST, HOST:PORT, or the
// URL of its metrics.
func Remote(server string) (*Source, error) {
	at, err := figuresURL(server)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: answerWait, Transport: &http.Transport{ResponseHeaderTimeout: answerWait, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &Source{at.Host, func(ctx context.Context) (*Snapshot, error) {
		set, err := fetch(ctx, client, at)
		if err != nil {
			return nil, err
		}
		return &Snapshot{time.Now(), set, nil}, nil
	}}, nil
}

// figuresURL returns the URL for a server's address as typed.
func figuresURL(server string) (*url.URL, error) {
	wrong := fmt.Errorf("%q: want HOST, HOST:PORT, or http://HOST:PORT/metrics", server)
	if strings.Contains(server, "://") {
		u, err := url.Parse(server)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, wrong
		}
		if u.Path == "" || u.Path == "/" {
			u.Path = "/metrics"
		}
		return u, nil
	}
	host, port, err := net.SplitHostPort(server)
	if err != nil { // the address has no port
		host, port = strings.TrimSuffix(strings.TrimPrefix(server, "["), "]"), DefaultPort
	}
	if host == "" || port == "" || strings.ContainsAny(host, "/?#@ []") || strings.ContainsAny(port, "/?#@ :[]") {
		return nil, wrong
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: "/metrics"}, nil
}

// fetch reads the metrics at an address.
func fetch(ctx context.Context, client *http.Client, from *url.URL) (figures.Set, error) {
	at := from.Redacted() // no password in messages
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	res, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err
		}
		return nil, fmt.Errorf("%s gives no figures: %w: nfsrdmad there needs --metrics-addr ADDRESS:%s, or run nfsrdma top --local on it", at, err, DefaultPort)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s gives no figures: it answers %q", at, res.Status)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, figures.MaxText+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", at, err)
	case len(text) > figures.MaxText:
		return nil, fmt.Errorf("%s: its figures do not end", at)
	}
	set, err := figures.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	if set[nameCalls] == nil {
		return nil, fmt.Errorf("%s answers, but with no figures of nfsrdmad", at)
	}
	return set, nil
}
