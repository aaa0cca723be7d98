// RPC-with-TLS on the server: the AUTH_TLS probe and the handshake (RFC 9289 §4.1, §5).

package transport

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A client sends a NULL call with the flavor AUTH_TLS, the server answers with STARTTLS in the
// verifier, and a TLS handshake follows on the same connection:
//
//	client                                 server
//	NULL, AUTH_TLS        ───────────────► finishes the calls received in clear
//	                      ◄─────────────── accepted, verifier AUTH_NONE "STARTTLS"
//	ClientHello           ───────────────►
//	                      ◄─────────────── ServerHello, certificate, …, Finished
//	certificate, Finished ───────────────► Call.Channel is set; calls are read again
//
// Until the session exists, the connection counts as one without a call, so a new connection can
// take its place.

// alpnSunRPC is the protocol's name in TLS (RFC 9289 §7.2).
const alpnSunRPC = "sunrpc"

// startTLS is the verifier's body in the answer to a probe (RFC 9289 §4.1).
var startTLS = []byte("STARTTLS")

// A TLS probe without its mark:
//
//	 0  4  xid
//	 4  4  0 (CALL)
//	 8  4  RPC version, 2
//	12  4  program
//	16  4  its version
//	20  4  0 (NULL)
//	24  4  7 (AUTH_TLS)
//	28  4  0
//	32  4  0 (AUTH_NONE)
//	36  4  0
const probeSize = 40

var (
	probeCall = []byte{0, 0, 0, 0, 0, 0, 0, 2}
	probeRest = []byte{0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
)

// isTLSProbe reports whether a record is a probe, exactly.
func isTLSProbe(b []byte) bool {
	return len(b) == probeSize && bytes.Equal(b[4:12], probeCall) && bytes.Equal(b[20:], probeRest)
}

// refuseTLS returns the status for a call with the flavor AUTH_TLS that starts no handshake. A
// server MUST answer AUTH_BADCRED to such a call of another procedure than NULL, or within a TLS
// session (RFC 9289 §4.1). A proper probe gets the same answer as an unknown flavor, because this
// server has no TLS.
func (c *Call) refuseTLS(h *oncrpc.CallHeader) oncrpc.AuthStat {
	if h.Proc != 0 || len(h.Cred.Body) > 0 || c.Channel.TLS != nil {
		return oncrpc.AuthBadCred
	}
	return oncrpc.AuthRejectedCred
}

// takesProbe reports whether rec is a probe that begins a handshake.
func (t *tcpConn) takesProbe(rec []byte) bool {
	return isTLSProbe(rec) && t.srv.cfg.TLS != nil && t.peer.secure.Load() == nil
}

// errHandshake ends a connection after a failed handshake, which has been logged.
var errHandshake = errors.New("rpc: TLS handshake failed")

// startTLS answers the probe and does the handshake. The caller is the leader. It has counted the
// probe in the gate, and startTLS lets it leave.
func (t *tcpConn) startTLS(probe []byte) error {
	// Replies in clear MUST NOT follow the probe's answer.
	t.flush()
	t.calls.leave(0)
	t.calls.drain()
	cfg, hello := serverTLS(t.srv.cfg.TLS(), alpnSunRPC)
	stream := newTLSStream(t.nc, cfg, serverEnd, t.srv.take)
	stream.most = cmp.Or(t.srv.keyBytes, stream.most)
	if err := t.handshake(probe, stream); err != nil {
		why := hello.reason(err, stream)
		t.srv.secured.fail(why)
		if !t.draining.Load() && t.ctx.Err() == nil {
			t.srv.log.Warn("TLS handshake failed", "peer", t.remote, "reason", why.String(), "error", hello.explain(why, err))
			t.linger()
		}
		return errHandshake
	}
	t.rd.r = stream
	stream.before = t.replied.Load()
	t.replied.Add(stream.wire.sealed.Load())
	t.stream.Store(stream)
	t.peer.secure.Store(&stream.channel)
	t.srv.began(t.remote, stream.channel)
	return nil
}

// began counts and logs a session.
func (s *Server) began(remote net.Addr, c Channel) {
	s.secured.count(c.Level())
	s.log.Info("TLS session", auditBurst, append([]any{"peer", remote}, c.fields()...)...)
}

// handshake answers the probe and does the handshake within handshakeTimeout.
func (t *tcpConn) handshake(probe []byte, stream *tlsStream) error {
	// A server MUST discard bytes between the probe and the handshake, and SHOULD drop the
	// connection (RFC 9289 §5.1.1). Bytes that come after the probe's answer fail the handshake.
	if t.rd.more() {
		return errClearBytes
	}
	t.nc.SetDeadline(time.Now().Add(handshakeTimeout))
	if t.draining.Load() { // drain has set its deadline before this one
		return ErrClosed
	}
	answer := t.srv.probeAnswer(probe)
	t.replied.Add(uint64(len(answer)))
	if _, err := t.nc.Write(answer); err != nil {
		return err
	}
	if err := stream.handshake(); err != nil {
		return err
	}
	t.nc.SetDeadline(time.Time{})
	return nil
}

// probeAnswer returns the answer to a probe, as a record. The client proceeds with TLS also if the
// program is unknown (RFC 9289 §4.1).
func (s *dispatcher) probeAnswer(probe []byte) []byte {
	h := oncrpc.ReplyHeader{XID: binary.BigEndian.Uint32(probe), Verf: oncrpc.OpaqueAuth{Body: startTLS}}
	prog, low, high, known := s.programs.find(binary.BigEndian.Uint32(probe[12:]), binary.BigEndian.Uint32(probe[16:]))
	switch {
	case prog == nil && known:
		h.Accept, h.Low, h.High = oncrpc.ProgMismatch, low, high
	case prog == nil:
		h.Accept = oncrpc.ProgUnavail
	}
	e := xdr.NewEncoder(nil)
	e.Uint32(0)
	h.EncodeXDR(e)
	e.SetUint32(0, uint32(e.Len()-markLen)|lastFragment)
	return e.Bytes()
}

// linger calls the function linger, for at most lingerTime, unless the server shuts down.
func (t *tcpConn) linger() {
	t.nc.SetReadDeadline(time.Now().Add(lingerTime))
	if !t.draining.Load() {
		linger(t.nc)
	}
}

// linger lets the peer read the alert. A socket closed with unread input would reset the
// connection, and the alert could be lost.
func linger(nc net.Conn) {
	c, ok := nc.(interface{ CloseWrite() error })
	if ok && c.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(nc, lingerBytes))
	}
}

// repliesWritten corrects replied after a write in a session. replied counts bytes on the wire,
// because it is compared with the bytes acknowledged by the peer's kernel.
func (t *tcpConn) repliesWritten() {
	if s := t.stream.Load(); s != nil && s.kernel == nil {
		t.replied.Store(s.before + s.wire.sealed.Load())
	}
}

// flushSealed writes records that the session has sealed while reading: the answer to a key update.
// Without it a peer that reads nothing but sends key updates would fill this process's memory.
func (t *tcpConn) flushSealed() {
	s := t.stream.Load()
	if s == nil || !s.pending() {
		return
	}
	t.asWriter(func() {
		if err := t.gather.writeTo(s, t); err != nil {
			t.close()
		}
	})
}

// awaitFIN waits until the peer's FIN has followed its close_notify, because fate asks the kernel
// whether the peer has closed its direction.
func (t *tcpConn) awaitFIN() {
	if t.stream.Load() == nil {
		return
	}
	t.nc.SetReadDeadline(time.Now().Add(closeWait))
	if !t.draining.Load() {
		_, _ = t.nc.Read(make([]byte, 1))
	}
}

// closeNotify ends the session, which the peer can then distinguish from a cut. Replies that come
// later fail.
func (t *tcpConn) closeNotify() {
	s := t.stream.Load()
	if s == nil || t.hasFailed() {
		return
	}
	t.asWriter(func() {
		s.closeNotify()
		t.nc.SetWriteDeadline(time.Now().Add(closeWait))
		_, _ = s.flush()
	})
}

// asWriter runs f as the writer, then writes the replies queued meanwhile. If another goroutine
// writes, asWriter does nothing: that goroutine sends sealed records, too.
func (t *tcpConn) asWriter(f func()) {
	t.mu.Lock()
	writes := !t.writing
	t.writing = true
	t.mu.Unlock()
	if !writes {
		return
	}
	f()
	t.mu.Lock()
	batch := t.nextBatch()
	t.mu.Unlock()
	t.write(batch)
}

// strictTLS returns a copy of cfg with the parts that RPC-with-TLS prescribes (RFC 9289 §5). The
// peer may omit ALPN, as Linux's tlshd does over TCP; another protocol fails the handshake.
func strictTLS(cfg *tls.Config, alpn string) *tls.Config {
	cfg = cfg.Clone()
	cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS13, tls.VersionTLS13
	cfg.NextProtos = []string{alpn}
	cfg.DynamicRecordSizingDisabled = true
	if check := cfg.VerifyConnection; check != nil {
		cfg.VerifyConnection = func(s tls.ConnectionState) error {
			if err := check(s); err != nil {
				return &refusedCert{err}
			}
			return nil
		}
	}
	return cfg
}

// A tlsCounts counts handshakes. The zero value is ready.
type tlsCounts struct {
	done   [len(xprtSecNames)]atomic.Uint64
	failed [tlsFailures]atomic.Uint64
}

func (c *tlsCounts) count(l XprtSec)     { c.done[l].Add(1) }
func (c *tlsCounts) fail(why TLSFailure) { c.failed[why].Add(1) }

// A HandshakeCount is the number of TLS handshakes with one result.
type HandshakeCount struct {
	Result string // "tls" or "mtls", or a TLSFailure such as "timeout"
	Count  uint64
}

// figures returns the counts: successful handshakes by level, then failures.
func (c *tlsCounts) figures() (list []HandshakeCount) {
	for l := XprtTLS; l <= XprtMTLS; l++ {
		list = append(list, HandshakeCount{l.String(), c.done[l].Load()})
	}
	for why := range c.failed {
		list = append(list, HandshakeCount{TLSFailure(why).String(), c.failed[why].Load()})
	}
	return list
}
