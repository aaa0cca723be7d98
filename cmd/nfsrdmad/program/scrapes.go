// The HTTP connections for metrics: a small number, without long idle times.

package program

import (
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxScrapes limits the connections. Their descriptors come from the share that limits.fit
	// leaves for short-lived files.
	maxScrapes = 8
	// scrapeIdle is the time after which an idle connection is closed: longer than the usual scrape
	// interval.
	scrapeIdle = 75 * time.Second
)

// A scrapeListener enforces maxScrapes: it closes an idle connection for a new one, or the new one
// if none is idle. Idle peers thus cannot lock out others.
type scrapeListener struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn        // the oldest first
	idle  map[net.Conn]bool // connections in conns without a running request
}

func limitScrapes(l net.Listener) *scrapeListener {
	return &scrapeListener{Listener: l, idle: map[net.Conn]bool{}}
}

// Accept returns the next connection that the limit permits.
func (l *scrapeListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		out := l.admit(c)
		if out != nil {
			out.Close()
		}
		if out != c {
			return c, nil
		}
	}
}

// admit counts c and returns the connection to close, possibly c, or nil.
func (l *scrapeListener) admit(c net.Conn) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out net.Conn
	if len(l.conns) >= maxScrapes {
		out = c
		for _, o := range l.conns {
			if l.idle[o] {
				out = o
				break
			}
		}
	}
	if out == c {
		return c
	}
	l.forget(out)
	l.conns = append(l.conns, c)
	l.idle[c] = true
	return out
}

// forget removes c. The caller holds mu.
func (l *scrapeListener) forget(c net.Conn) {
	for i, o := range l.conns {
		if o == c {
			l.conns = append(l.conns[:i], l.conns[i+1:]...)
			break
		}
	}
	delete(l.idle, c)
}

// state implements http.Server.ConnState. A connection before its first request counts as idle.
func (l *scrapeListener) state(c net.Conn, s http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch s {
	case http.StateClosed, http.StateHijacked:
		l.forget(c)
	case http.StateActive, http.StateIdle:
		if _, ok := l.idle[c]; ok {
			l.idle[c] = s == http.StateIdle
		}
	}
}
