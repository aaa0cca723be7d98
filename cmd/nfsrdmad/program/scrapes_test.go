// Metrics are available to any peer, even if others hold connections open.

package program

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
)

// listenFigures serves the metrics of a server without programs, and returns the address.
func listenFigures(t *testing.T) string {
	t.Helper()
	addr := "127.0.0.1:" + freePort(t)
	end, err := newMetrics([]*transport.Program{}).serve(addr)
	if err != nil {
		t.Fatalf("serve: %v", err)
	}
	t.Cleanup(func() { end() })
	return addr
}

// TestScrapesAreBounded: beyond the limit, idle connections are closed, the oldest first, and the
// next peer gets the metrics.
func TestScrapesAreBounded(t *testing.T) {
	addr := listenFigures(t)
	var idle []net.Conn
	for range 2 * maxScrapes {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatalf("net.Dial: %v", err)
		}
		defer c.Close()
		io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n")
		r := bufio.NewReader(c)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("http.ReadResponse: %v", err)
		}
		io.Copy(io.Discard, res.Body) // reads the whole reply, so that the next Read sees the end
		idle = append(idle, c)
	}
	if scrape(addr) == "" {
		t.Error("no figures beside connections that do nothing")
	}
	for i, c := range idle[:maxScrapes] {
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d of %d is still open: %v", i, len(idle), err)
		}
	}
}

// TestScrapesThatRun: a connection with a running request is not closed for another one, and a
// closed connection makes room.
func TestScrapesThatRun(t *testing.T) {
	l := limitScrapes(nil)
	var busy []net.Conn
	for range maxScrapes {
		c, _ := net.Pipe()
		if l.admit(c) != nil {
			t.Fatal("refused below the limit")
		}
		l.state(c, http.StateActive)
		busy = append(busy, c)
	}
	next, _ := net.Pipe()
	if l.admit(next) != next {
		t.Error("a connection that is being answered was closed, or there are too many")
	}
	l.state(next, http.StateActive) // a late event from a connection that is closed
	l.state(busy[3], http.StateIdle)
	if l.admit(next) != busy[3] {
		t.Error("the idle connection did not make room")
	}
	l.state(busy[3], http.StateClosed)
	l.state(busy[5], http.StateClosed)
	last, _ := net.Pipe()
	if l.admit(last) != nil || len(l.conns) != maxScrapes || len(l.idle) != maxScrapes {
		t.Errorf("one that has ended made no room: %d, %d", len(l.conns), len(l.idle))
	}
}

// TestScrapeOverOneConnection: a connection serves several requests, as Prometheus makes them.
func TestScrapeOverOneConnection(t *testing.T) {
	addr := listenFigures(t)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	defer c.Close()
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		if c == nil {
			return nil, errors.New("a second connection was asked for")
		}
		once := c
		c = nil
		return once, nil
	}}}
	for range 3 {
		res, err := client.Get("http://" + addr + "/metrics")
		if err != nil {
			t.Fatalf("client.Get: %v", err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}
