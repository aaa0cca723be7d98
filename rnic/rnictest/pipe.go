// Package rnictest is the other end of a connection, controlled by hand: tests and fuzz targets
// send any FPDUs and check the response. Connections are in memory, so that everything can run in
// the simulated time of testing/synctest.
package rnictest

import (
	"net"
	"sync"
)

// A Listener is a net.Listener for connections in memory.
type Listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// Listen returns a Listener.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Dial returns the near end of a new connection once the far end has been accepted; net.ErrClosed
// after the Listener was closed.
func (l *Listener) Dial() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- conn{far}:
		return near, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Accept returns the next connection's far end.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends Dial and Accept.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr returns an unreachable address.
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 20049} }

// A conn has a peer with an address, like a network connection.
type conn struct{ net.Conn }

func (conn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 700} }
