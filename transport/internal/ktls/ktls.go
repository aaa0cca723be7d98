// The change from crypto/tls to the kernel after a handshake.

// Package ktls moves TLS 1.3 connections into the Linux kernel. crypto/tls makes the handshake;
// then the kernel encrypts and decrypts. A READ's reply leaves from the page cache by one writev,
// without a copy in user space.
//
//	h := ktls.Server(raw, config)
//	err := h.TLS.HandshakeContext(ctx)
//	...
//	conn, err := h.Take()
//	switch {
//	case err == nil: // use conn; h.TLS must not be used again
//	case errors.Is(err, ktls.ErrUnsupported): // use h.TLS, as if this package did not exist
//	default: // close raw: the connection is unusable
//	}
package ktls

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// ErrUnsupported means that the kernel cannot take over a connection. The connection stays usable.
var ErrUnsupported = errors.New("kernel TLS is unavailable")

// A Handshake is a connection until the kernel takes it over.
type Handshake struct {
	// TLS makes the handshake. Without Take it is an ordinary connection.
	TLS *tls.Conn

	raw      net.Conn
	records  *recordConn
	secrets  *secrets
	isServer bool
}

// Server prepares a server's handshake on raw: a TCP connection, or a wrapper of one with a method
// NetConn() net.Conn and without an input buffer. It uses a copy of cfg without session tickets: a
// ticket is a record after the handshake, and would advance the sequence number.
func Server(raw net.Conn, cfg *tls.Config) *Handshake {
	h := newHandshake(raw)
	h.isServer = true
	h.TLS = tls.Server(h.records, h.secrets.config(cfg))
	return h
}

// Client prepares a client's handshake on raw. It uses a copy of cfg.
func Client(raw net.Conn, cfg *tls.Config) *Handshake {
	h := newHandshake(raw)
	h.TLS = tls.Client(h.records, h.secrets.config(cfg))
	return h
}

func newHandshake(raw net.Conn) *Handshake {
	return &Handshake{raw: raw, records: &recordConn{Conn: raw, limited: true}, secrets: new(secrets)}
}

// Take moves the connection into the kernel, after a successful handshake and before any Read or
// Write of h.TLS. After ErrUnsupported the caller continues with h.TLS. After another error it
// closes the connection.
func (h *Handshake) Take() (*Conn, error) {
	defer h.records.unlimit()
	defer h.secrets.forget()
	raw := h.raw
	if c, ok := raw.(interface{ NetConn() net.Conn }); ok { // a wrapper of the socket
		raw = c.NetConn()
	}
	tcp, ok := raw.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("%w: not a TCP connection", ErrUnsupported)
	}
	k, err := newKernelSocket(tcp)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return h.take(k)
}

// take is Take for any socket.
func (h *Handshake) take(s socket) (*Conn, error) {
	state := h.TLS.ConnectionState()
	suite := suites[state.CipherSuite]
	switch {
	case !state.HandshakeComplete:
		return nil, errors.New("ktls: no handshake was made")
	case state.Version != tls.VersionTLS13 || suite == nil:
		return nil, fmt.Errorf("%w: no TLS 1.3, or its cipher is unknown", ErrUnsupported)
	case h.records.within():
		// crypto/tls reads whole records, so a partial one is a bug there or in recordConn.
		return nil, errors.New("ktls: the handshake ended within a record")
	}
	receive, send := h.secrets.server, h.secrets.client
	if h.isServer {
		receive, send = send, receive
	}
	if len(receive) != suite.size || len(send) != suite.size {
		return nil, fmt.Errorf("%w: crypto/tls has not logged the secrets", ErrUnsupported)
	}
	c := newConn(s, suite, h.isServer, receive, send)
	if err := s.enable(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	// The receiving half comes first: if the kernel lacks the cipher, nothing has changed yet.
	if err := s.setKey(receiving, suite.info(receive)); err != nil {
		return nil, fmt.Errorf("%w: cipher %s: %w", ErrUnsupported, tls.CipherSuiteName(state.CipherSuite), err)
	}
	if err := s.setKey(sending, suite.info(send)); err != nil {
		return nil, fmt.Errorf("ktls: the kernel decrypts, but does not encrypt: %w", err)
	}
	return c, nil
}
