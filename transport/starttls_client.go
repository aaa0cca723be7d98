// RPC-with-TLS on the client: the AUTH_TLS probe and the handshake (RFC 9289 §4.1, §5).

package transport

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// The program in the probe. Any answer with STARTTLS suffices, but a server may look up the program
// before the flavor.
const (
	probeProg = 100003 // NFS
	probeVers = 3
)

// secure makes a TLS session on a new connection by handshake. The error is handshake's, or ctx's.
func secure(ctx context.Context, nc net.Conn, handshake func() (*tlsStream, error)) (*tlsStream, error) {
	nc.SetDeadline(time.Now().Add(handshakeTimeout))
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(past) })
	stream, err := handshake()
	if !stop() && err == nil { // the deadline possibly changes later
		err = ctx.Err()
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	nc.SetDeadline(time.Time{})
	return stream, nil
}

// dialTLS returns a connection over a TLS session on nc. The server has answered one call over it:
// a server refuses a client's certificate only after the client's part of the handshake.
func (c *Client) dialTLS(ctx context.Context, nc net.Conn) (clientConn, error) {
	stream, err := secure(ctx, nc, func() (*tlsStream, error) { return c.cfg.handshake(nc, c.Addr()) })
	if err != nil {
		nc.Close()
		return nil, err
	}
	l := newStreamClientConn(nc, stream, &c.cfg)
	if err := c.probe(ctx, l, c.cfg.RetryTimeout); err != nil {
		l.close(err)
		return nil, stream.channel.refused(err)
	}
	return l, nil
}

// refused returns the error of a new session that ended before its first answer. A *TLSError says
// that the server refused the client's certificate, which it checks after the client's part of the
// handshake. Some servers only close the connection then.
func (c Channel) refused(err error) error {
	switch {
	case tlsFailure(err) == TLSPeer:
		return clientTLSError(err)
	case c.shown && leftByPeer(err):
		return &TLSError{Failure: TLSPeerLeft}
	}
	return err
}

// closeNotify ends the session properly if no call waits and none is being written.
func (l *tcpClientConn) closeNotify() {
	s, ok := l.rw.(*tlsStream)
	if !ok {
		return
	}
	l.mu.Lock()
	idle := l.err == nil && l.writer == nil && len(l.pending) == 0
	if idle {
		l.writer = new(outCall) // it never hands over: a call from now on waits for the end
	}
	l.mu.Unlock()
	if idle {
		s.closeNotify()
		l.nc.SetWriteDeadline(time.Now().Add(closeWait))
		_, _ = s.flush()
	}
}

// handshake probes, then does the handshake. Nothing but the probe is sent in clear. The error is a
// *TLSError.
func (cfg *ClientConfig) handshake(nc net.Conn, addr string) (*tlsStream, error) {
	if err := probeTLS(nc); err != nil {
		return nil, err
	}
	return cfg.session(nc, addr, alpnSunRPC)
}

// session does the handshake for the protocol.
func (cfg *ClientConfig) session(nc net.Conn, addr, alpn string) (*tlsStream, error) {
	strict, shown := clientTLS(cfg.TLS, addr, alpn)
	var take takeTLS
	if cfg.KernelTLS && alpn == alpnSunRPC {
		take = kernelTake
	}
	stream := newTLSStream(nc, strict, clientEnd, take)
	stream.most = cmp.Or(cfg.keyBytes, stream.most)
	if err := stream.handshake(); err != nil {
		return nil, clientTLSError(err)
	}
	stream.channel.client, stream.channel.shown = true, *shown
	return stream, nil
}

// clientTLS returns the configuration for a session with the server at addr. *shown is set when the
// client presents a certificate.
func clientTLS(cfg *tls.Config, addr, alpn string) (strict *tls.Config, shown *bool) {
	cfg = strictTLS(cfg, alpn)
	cfg.ClientSessionCache = nil // so no data before the handshake's end (RFC 9289 §6)
	if host, _, err := net.SplitHostPort(addr); err == nil && cfg.ServerName == "" {
		cfg.ServerName = host
	}
	choose := cfg.GetClientCertificate
	if choose == nil {
		choose = firstCertificate(cfg.Certificates)
	}
	shown = new(bool)
	cfg.GetClientCertificate = func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c, err := choose(r)
		*shown = err == nil && len(c.Certificate) > 0
		return c, err
	}
	return cfg, shown
}

// firstCertificate returns a function that chooses the first certificate that the server may
// accept, or an empty one.
func firstCertificate(list []tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		for i := range list {
			if r.SupportsCertificate(&list[i]) == nil {
				return &list[i], nil
			}
		}
		return new(tls.Certificate), nil
	}
}

// clientTLSError returns the error of a client's handshake.
func clientTLSError(err error) *TLSError {
	e := &TLSError{Failure: tlsFailure(err), Err: err}
	switch e.Failure {
	case TLSTimeout, TLSCutOff, TLSClearBytes:
		e.Err = nil
	}
	return e
}

// probeTLS sends a probe and checks the answer. It reads no byte beyond the answer.
func probeTLS(nc net.Conn) error {
	xid := rand.Uint32()
	e := xdr.NewEncoder(nil)
	e.Uint32(0)
	h := oncrpc.CallHeader{XID: xid, Prog: probeProg, Vers: probeVers, Cred: oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorTLS}}
	h.EncodeXDR(e)
	e.SetUint32(0, uint32(e.Len()-markLen)|lastFragment)
	if _, err := nc.Write(e.Bytes()); err != nil {
		return probeError(err)
	}
	reply, err := readProbeReply(nc)
	if err != nil {
		return err
	}
	return checkProbeReply(reply, xid)
}

// probeError returns the error for a connection that fails during the probe.
func probeError(err error) error {
	if f := tlsFailure(err); f == TLSCutOff || f == TLSTimeout {
		return &TLSError{Failure: f}
	}
	return &TLSError{Failure: TLSOther, Err: err}
}

// readProbeReply reads one record of one fragment.
func readProbeReply(nc net.Conn) ([]byte, error) {
	var mark [markLen]byte
	if _, err := io.ReadFull(nc, mark[:]); err != nil {
		return nil, probeError(err)
	}
	v := binary.BigEndian.Uint32(mark[:])
	n := v &^ lastFragment
	if v&lastFragment == 0 || n > probeReplyMax {
		return nil, &TLSError{Failure: TLSProbeReply}
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(nc, b); err != nil {
		return nil, probeError(err)
	}
	return b, nil
}

// checkProbeReply checks the answer to a probe. The client MUST NOT begin a handshake unless the
// call was accepted with a verifier AUTH_NONE of "STARTTLS"; the accept_stat does not matter
// (RFC 9289 §4.1).
func checkProbeReply(b []byte, xid uint32) error {
	var h oncrpc.ReplyHeader
	d := xdr.NewDecoder(b)
	h.DecodeXDR(d)
	switch {
	case d.Err() != nil, d.Remaining() > 0, h.XID != xid:
		return &TLSError{Failure: TLSProbeReply}
	case h.Denied, h.Verf.Flavor != oncrpc.FlavorNone, !bytes.Equal(h.Verf.Body, startTLS):
		return &TLSError{Failure: TLSNotOffered}
	}
	return nil
}

// Channel returns the current connection's protection; in clear without a connection.
func (c *Client) Channel() Channel {
	switch l := c.current().(type) {
	case *tcpClientConn:
		if s, ok := l.rw.(*tlsStream); ok {
			return s.channel
		}
	case *rdmaClientConn:
		return l.channel
	}
	return Channel{}
}
