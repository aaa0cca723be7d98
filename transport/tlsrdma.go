// iWARP over TLS: RDMA in a TLS session.

package transport

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// No RFC has this protocol: RFC 9289 §5.1.3 leaves RDMA to others. Only this package's client and
// server speak it. The client connects to the port for iWARP and begins a TLS handshake at once,
// without a probe; MPA's frames and all that follows are the session's data. The server
// distinguishes the two by the first byte: 0x16 begins a TLS record, 'M' an MPA Request ("MPA ID
// Req Frame"). The ALPN protocol is alpnRDMA, and both ends require it, so that no session of
// another service is taken for one of this. A server without TLS takes the bytes for an invalid MPA
// Request.

const (
	alpnRDMA           = "rpcrdma-iwarp"
	tlsHandshakeRecord = 0x16
)

// iwarpProvider is the provider with connections over TCP.
const iwarpProvider = "iwarp"

var errNoRDMATLS = errors.New("RDMA over RoCE has no TLS: use iWARP (rdma=iwarp) or TCP")

// A tlsConn is a TLS session as the connection below iWARP. At most one goroutine writes.
type tlsConn struct {
	*tlsStream
	raw net.Conn
}

func (c *tlsConn) Close() error                       { return c.raw.Close() }
func (c *tlsConn) LocalAddr() net.Addr                { return c.raw.LocalAddr() }
func (c *tlsConn) RemoteAddr() net.Addr               { return c.raw.RemoteAddr() }
func (c *tlsConn) SetDeadline(t time.Time) error      { return c.raw.SetDeadline(t) }
func (c *tlsConn) SetReadDeadline(t time.Time) error  { return c.raw.SetReadDeadline(t) }
func (c *tlsConn) SetWriteDeadline(t time.Time) error { return c.raw.SetWriteDeadline(t) }

// MSS makes an FPDU fill a TLS record.
func (c *tlsConn) MSS() int { return tlsPayload }

// CloseWrite ends the session, then the socket's sending direction.
func (c *tlsConn) CloseWrite() error {
	c.closeNotify()
	if _, err := c.flush(); err != nil {
		return err
	}
	if raw, ok := c.raw.(interface{ CloseWrite() error }); ok {
		return raw.CloseWrite()
	}
	return nil
}

// offerRDMATLS lets clients begin such sessions, if the server has TLS and l accepts streams.
func (s *Server) offerRDMATLS(l rnic.Listener) {
	if sl, ok := l.(rnic.StreamListener); ok && s.cfg.TLS != nil {
		sl.Inbound(s.inboundRDMA)
	}
}

// inboundRDMA returns the TLS session on a new connection to the port for iWARP, or the connection
// itself if its client does not begin one. The caller has set a deadline.
func (s *Server) inboundRDMA(nc net.Conn) (net.Conn, error) {
	first, nc, err := peekByte(nc)
	if err != nil || first != tlsHandshakeRecord {
		return nc, err
	}
	cfg, hello := serverTLS(s.cfg.TLS(), alpnRDMA)
	stream := newTLSStream(nc, cfg, serverEnd, nil)
	stream.most = cmp.Or(s.keyBytes, stream.most)
	if err := stream.handshakeRDMA(); err != nil {
		why := hello.reason(err, stream)
		s.secured.fail(why)
		s.log.Warn("TLS handshake failed", "peer", nc.RemoteAddr(), "reason", why.String(), "error", hello.explain(why, err))
		linger(nc)
		return nil, err
	}
	s.began(nc.RemoteAddr(), stream.channel)
	return &tlsConn{stream, nc}, nil
}

// errNotRDMA means that the peer's session is for another protocol.
var errNotRDMA = errors.New("the TLS session is not for iWARP (ALPN)")

// handshakeRDMA makes a session of alpnRDMA.
func (s *tlsStream) handshakeRDMA() error {
	if err := s.handshake(); err != nil {
		return err
	}
	if s.channel.TLS.NegotiatedProtocol != alpnRDMA {
		return errNotRDMA
	}
	return nil
}

// peekByte waits for the first byte and leaves it unread: in the socket, or otherwise in front of
// the returned connection.
func peekByte(nc net.Conn) (first byte, again net.Conn, err error) {
	var b [1]byte
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		if _, err := io.ReadFull(nc, b[:]); err != nil {
			return 0, nc, err
		}
		return b[0], &prefixConn{nc, b[:]}, nil
	}
	raw, err := tc.SyscallConn()
	if err != nil {
		return 0, nc, err
	}
	n := 0
	var perr error
	err = raw.Read(func(fd uintptr) bool {
		n, _, perr = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return perr != syscall.EAGAIN && perr != syscall.EINTR
	})
	if err == nil {
		err = perr
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	return b[0], nc, err
}

// A prefixConn is a connection with bytes that were read before.
type prefixConn struct {
	net.Conn
	first []byte
}

func (c *prefixConn) Read(b []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// overTLS returns the socket of a request's connection. It sets channel and stream of one over TLS.
func (r *rdmaConn) overTLS(nc net.Conn) net.Conn {
	if c, ok := nc.(*tlsConn); ok {
		r.peer.secure.Store(&c.channel)
		r.stream = c.tlsStream
		return c.raw
	}
	return nc
}

// dialRDMAOverTLS returns a new connection in a TLS session.
func (c *Client) dialRDMAOverTLS(ctx context.Context, dev *rnic.Device) (*rdmaClientConn, error) {
	if dev.Caps().Provider != iwarpProvider {
		return nil, &TLSError{Failure: TLSNotOffered, Err: errNoRDMATLS}
	}
	dial := c.cfg.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	nc, err := dial(ctx, "tcp", c.Addr())
	if err != nil {
		return nil, err
	}
	stream, err := secure(ctx, nc, func() (*tlsStream, error) { return c.cfg.sessionRDMA(nc, c.Addr()) })
	if err != nil {
		nc.Close()
		return nil, err
	}
	conn, err := rpcrdma.DialOver(ctx, dev, &tlsConn{stream, nc}, c.cfg.RDMA)
	if err != nil {
		if tlsFailure(err) == TLSPeer {
			err = clientTLSError(err)
		}
		return nil, err
	}
	return &rdmaClientConn{conn: conn, channel: stream.channel}, nil
}

// sessionRDMA is session for iWARP.
func (cfg *ClientConfig) sessionRDMA(nc net.Conn, addr string) (*tlsStream, error) {
	stream, err := cfg.session(nc, addr, alpnRDMA)
	if err == nil && stream.channel.TLS.NegotiatedProtocol != alpnRDMA {
		err = &TLSError{Failure: TLSProtocol}
	}
	return stream, err
}
