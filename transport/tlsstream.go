// A TLS session on a socket: full records, writes that continue after a deadline, and the number of
// bytes on the wire.

package transport

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/transport/internal/ktls"
)

// A TLS 1.3 record has a header of 5 bytes and at most 16 KiB of data, then a byte for the type and
// a tag of 16 (RFC 8446 §5.2).
const (
	tlsHeader   = 5
	tlsPayload  = 16 << 10
	tlsOverhead = tlsHeader + 1 + 16
)

const (
	tlsFirstRead = 4 << 10  // input buffer during the handshake, so that an attempt costs little
	tlsBatch     = 64 << 10 // data sealed before it is written to the socket
)

// wireSize returns the bytes on the wire for n bytes written together.
func wireSize(n int) int { return n + (n+tlsPayload-1)/tlsPayload*tlsOverhead }

// A tlsStream is a TLS session. The tls.Conn writes to memory, from which flush writes to the
// socket. So a deadline interrupts only flush, which continues later; within tls.Conn.Write the
// deadline would make the session unusable. Nothing sets deadlines on the tls.Conn.
type tlsStream struct {
	conn    *tls.Conn
	wire    tlsWire
	channel Channel // set by handshake

	toKernel takeTLS         // nil: the session stays here
	hands    *ktls.Handshake // set with toKernel
	kernel   kernelTLS       // set by handshake: replaces conn and wire; nil: none

	most     uint64      // bytes that one key may encrypt; see worn
	finished atomic.Bool // the peer's close_notify has been read; see notified

	before uint64 // bytes sent in clear on the socket before the session; set by the user

	// Owned by the writer.
	stage []byte // data from several buffers, for one record
	rest  []byte // sealed bytes taken from the wire and not written yet
}

// A tlsWire is the socket as the tls.Conn sees it.
type tlsWire struct {
	net.Conn               // the socket
	sealed   atomic.Uint64 // bytes of records written, with the handshake
	opened   atomic.Uint64 // bytes read from the socket
	through  bool          // during the handshake: written bytes go directly to the socket
	exact    bool          // with through: nothing is read ahead, because the kernel may take over

	// Owned by the reader.
	in         []byte
	start, end int  // in[start:end] is unused input
	left       int  // bytes of the current record not yet passed on
	ended      bool // the socket's input has ended
	// ahead counts the input in this process not yet returned by Read.
	ahead atomic.Int64

	mu  sync.Mutex // guards out: the reader answers a key update, and sends alerts
	out []byte
	// spare is the array that out does not use. Owned by the writer.
	spare []byte
}

// newTLSStream returns a stream before its handshake. take is nil if the session must not move into
// the kernel.
func newTLSStream(raw net.Conn, cfg *tls.Config, end tlsEnd, take takeTLS) *tlsStream {
	s := &tlsStream{toKernel: take, most: keyBytes, wire: tlsWire{Conn: raw, through: true}}
	if take != nil {
		s.wire.exact = true
		s.hands = end.kernel(&s.wire, cfg)
		s.conn = s.hands.TLS
		return s
	}
	s.wire.in = make([]byte, tlsFirstRead)
	s.conn = end.user(&s.wire, cfg)
	return s
}

// handshake makes the session. The caller bounds it by a deadline of the socket.
func (s *tlsStream) handshake() error {
	if err := s.conn.Handshake(); err != nil {
		return err
	}
	state := s.conn.ConnectionState()
	s.channel.TLS = &state
	if err := s.moveToKernel(); err != nil || s.kernel != nil {
		return err
	}
	s.wire.through, s.wire.exact = false, false
	in := make([]byte, tcpWindow)
	s.wire.end = copy(in, s.wire.in[s.wire.start:s.wire.end])
	s.wire.in, s.wire.start = in, 0
	return nil
}

// Read reads from at most one record. An expired deadline loses no bytes.
func (s *tlsStream) Read(b []byte) (int, error) {
	if s.kernel != nil {
		n, err := s.kernel.Read(b)
		s.wire.opened.Add(uint64(n))
		return n, err
	}
	n, err := s.conn.Read(b)
	if errors.Is(err, io.EOF) && !s.wire.ended { // else it comes from a FIN alone
		s.finished.Store(true)
	}
	// A full b may leave bytes of the record in the tls.Conn, which does not report them. If it
	// leaves none, ahead is too large by one until the next Read.
	full := int64(0)
	if n == len(b) {
		full = 1
	}
	s.wire.ahead.Store(full + int64(s.wire.end-s.wire.start))
	return n, err
}

// notified reports whether the peer has ended the session by a close_notify. Anyone on the way can
// forge a FIN, and a Read returns io.EOF after either.
func (s *tlsStream) notified() bool {
	if s.kernel != nil {
		return s.kernel.Notified()
	}
	return s.finished.Load()
}

// worn reports whether a key of either direction has encrypted as much as one key may. Nothing here
// begins a KeyUpdate: crypto/tls cannot, and Linux follows one only since 6.14. So the connection
// ends after the replies to its calls, and the client makes another.
func (s *tlsStream) worn() bool {
	return s.wire.sealed.Load() >= s.most || s.wire.opened.Load() >= s.most
}

// errWorn ends a connection with a worn key.
var errWorn = errors.New("rpc: the TLS session's key has encrypted enough")

// buffered reports whether Read possibly returns bytes without the socket.
func (s *tlsStream) buffered() bool {
	if s.kernel != nil {
		return readable(s.wire.Conn)
	}
	return s.wire.ahead.Load() > 0
}

// Read passes on the socket's bytes up to a record's end, so that the tls.Conn holds no bytes of
// the next record, which buffered would not see.
func (w *tlsWire) Read(b []byte) (int, error) {
	if w.exact {
		return w.Conn.Read(b)
	}
	for w.left == 0 {
		if have := w.end - w.start; have >= tlsHeader {
			w.left = tlsHeader + int(binary.BigEndian.Uint16(w.in[w.start+3:]))
			break
		}
		if err := w.fill(); err != nil {
			return 0, err
		}
	}
	if w.start == w.end {
		if err := w.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, w.in[w.start:min(w.end, w.start+w.left)])
	w.start += n
	w.left -= n
	return n, nil
}

// fill reads once from the socket.
func (w *tlsWire) fill() error {
	w.end = copy(w.in, w.in[w.start:w.end])
	w.start = 0
	n, err := w.Conn.Read(w.in[w.end:])
	w.opened.Add(uint64(n))
	if w.end += n; n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	w.ended = w.ended || errors.Is(err, io.EOF)
	if errors.Is(err, io.EOF) && w.end > 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// errUnwritten means that the peer causes answers, such as to key updates, and reads none of them.
var errUnwritten = errors.New("rpc: too many TLS records wait to be sent")

// Write stores a record for flush.
func (w *tlsWire) Write(b []byte) (int, error) {
	w.sealed.Add(uint64(len(b)))
	if w.through {
		return w.Conn.Write(b)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.out) > 4*tlsBatch {
		return 0, errUnwritten
	}
	w.out = append(w.out, b...)
	return len(b), nil
}

// SetWriteDeadline does nothing: tls.Conn calls it around its close_notify, which goes to memory.
func (w *tlsWire) SetWriteDeadline(time.Time) error { return nil }

// pending reports whether sealed bytes wait for flush.
func (s *tlsStream) pending() bool {
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	return len(s.wire.out) > 0
}

// take moves the sealed bytes to rest.
func (s *tlsStream) take() {
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	s.rest, s.wire.out, s.wire.spare = s.wire.out, s.wire.spare[:0], s.wire.out
}

// flush writes the sealed bytes to the socket. After an error another flush continues at the first
// unwritten byte. The caller is the only writer.
func (s *tlsStream) flush() (n int64, err error) {
	for {
		if len(s.rest) == 0 {
			if s.take(); len(s.rest) == 0 {
				return n, nil
			}
		}
		m, err := s.wire.Conn.Write(s.rest)
		s.rest = s.rest[m:]
		if n += int64(m); err != nil {
			return n, err
		}
	}
}

// writeBuffers seals bufs and writes them. It consumes bufs as they are sealed, and n is the number
// of bytes written to the socket. After an expired deadline another writeBuffers, also with empty
// bufs, continues. The caller is the only writer.
func (s *tlsStream) writeBuffers(bufs *net.Buffers) (n int64, err error) {
	if s.kernel != nil {
		n, err := s.kernel.WriteBuffers(bufs)
		s.wire.sealed.Add(uint64(wireSize(int(n))))
		return n, err
	}
	for {
		for sealed := 0; sealed < tlsBatch && len(*bufs) > 0; {
			b := s.portion(bufs)
			if _, err := s.conn.Write(b); err != nil {
				return n, err
			}
			sealed += len(b)
		}
		m, err := s.flush()
		if n += m; err != nil || len(*bufs) == 0 {
			return n, err
		}
	}
}

// Write is writeBuffers for one buffer. It returns the number of sealed bytes, which MUST NOT be
// written again. After an expired deadline another Write sends the sealed bytes first.
func (s *tlsStream) Write(b []byte) (int, error) {
	if s.kernel != nil {
		n, err := s.kernel.Write(b)
		s.wire.sealed.Add(uint64(wireSize(n)))
		return n, err
	}
	for rest := b; ; {
		n := min(len(rest), tlsBatch)
		if _, err := s.conn.Write(rest[:n]); err != nil {
			return len(b) - len(rest), err
		}
		rest = rest[n:]
		if _, err := s.flush(); err != nil || len(rest) == 0 {
			return len(b) - len(rest), err
		}
	}
}

// portion consumes and returns bytes of bufs that fill records: from the first buffer, or copied
// from several to fill one record. Only the last record of bufs is shorter.
func (s *tlsStream) portion(bufs *net.Buffers) []byte {
	b := (*bufs)[0]
	if len(b) >= tlsPayload || len(*bufs) == 1 {
		n := min(len(b), tlsBatch)
		if len(*bufs) > 1 {
			n -= n % tlsPayload
		}
		skip(bufs, n)
		return b[:n]
	}
	if s.stage == nil {
		s.stage = make([]byte, 0, tlsPayload)
	}
	s.stage = s.stage[:0]
	for len(*bufs) > 0 && len(s.stage) < tlsPayload {
		n := min(len((*bufs)[0]), tlsPayload-len(s.stage))
		s.stage = append(s.stage, (*bufs)[0][:n]...)
		skip(bufs, n)
	}
	return s.stage
}

// skip consumes n bytes of the first buffer.
func skip(bufs *net.Buffers, n int) {
	if (*bufs)[0] = (*bufs)[0][n:]; len((*bufs)[0]) == 0 {
		(*bufs)[0] = nil
		*bufs = (*bufs)[1:]
	}
}

// closeNotify seals a close_notify alert, for flush; the kernel also sends FIN. No data may follow.
func (s *tlsStream) closeNotify() {
	if s.kernel != nil {
		_ = s.kernel.CloseWrite()
		return
	}
	_ = s.conn.CloseWrite()
}
