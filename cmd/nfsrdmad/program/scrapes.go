// The connections of those who ask for the figures: few, and none that does nothing for long.

package program

import (
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxScrapes is how many there are at once. They come out of the descriptors that
	// limits.fit leaves for what is opened for a moment.
	maxScrapes = 8
	// scrapeIdle is how long one may stay that asks for nothing: above the interval at
	// which figures are usually asked for.
	scrapeIdle = 75 * time.Second
)

// A scrapeListener closes an idle connection when one more comes than there may be, or the
// new one when none is idle: peers that connect and do nothing cannot keep others out.
type scrapeListener struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn        // the oldest first
	idle  map[net.Conn]bool // of conns: those that are not being answered
}

func limitScrapes(l net.Listener) *scrapeListener {
	return &scrapeListener{Listener: l, idle: map[net.Conn]bool{}}
}

// Accept returns the next connection that there is room for.
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

// admit counts c and returns the connection to close, which may be c; nil: there is room.
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

// forget takes c out of those that there are. The caller holds mu.
func (l *scrapeListener) forget(c net.Conn) {
	for i, o := range l.conns {
		if o == c {
			l.conns = append(l.conns[:i], l.conns[i+1:]...)
			break
		}
	}
	delete(l.idle, c)
}

// state implements http.Server.ConnState. What has not sent a request yet counts as idle.
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
