// The handshake's view of a socket: one record at a time.

package ktls

import (
	"encoding/binary"
	"net"
)

// headerLength is the length of a record's header: type, version, length (RFC 8446 §5.1).
const headerLength = 5

// A recordConn never returns bytes beyond the current record. So crypto/tls, which reads as much as
// it gets, has buffered no application data when the handshake ends: those bytes are for the
// kernel.
type recordConn struct {
	net.Conn
	limited bool
	header  [headerLength]byte
	have    int // bytes of the header that were returned
	left    int // bytes of the current record that follow
}

// unlimit ends the limit, for a connection that stays with crypto/tls.
func (r *recordConn) unlimit() { r.limited = false }

func (r *recordConn) Read(p []byte) (int, error) {
	if !r.limited {
		return r.Conn.Read(p)
	}
	if r.have < headerLength {
		n, err := r.Conn.Read(p[:min(len(p), headerLength-r.have)])
		copy(r.header[r.have:], p[:n])
		if r.have += n; r.have == headerLength {
			r.begin()
		}
		return n, err
	}
	n, err := r.Conn.Read(p[:min(len(p), r.left)])
	if r.left -= n; r.left == 0 {
		r.have = 0
	}
	return n, err
}

// begin notes the length of a record with a complete header.
func (r *recordConn) begin() {
	r.left = int(binary.BigEndian.Uint16(r.header[3:]))
	if r.left == 0 { // crypto/tls refuses it
		r.have = 0
	}
}

// within reports whether the current record was read in part.
func (r *recordConn) within() bool { return r.have > 0 }
