// The header of per-message tokens (RFC 4121 §4.2.6).

package krb5

import (
	"encoding/binary"
)

// tokenHeader is a header's size in bytes.
const tokenHeader = 16

// Token identifiers (RFC 4121 §4.1, §4.2.6).
const (
	idAPReq = 0x0100
	idAPRep = 0x0200
	idError = 0x0300
	idMIC   = 0x0404
	idWrap  = 0x0504
)

// Flags in a token (RFC 4121 §4.2.2).
const (
	flagSentByAcceptor = 1 << 0
	flagSealed         = 1 << 1
	flagAcceptorSubkey = 1 << 2
)

// A header is a decoded token header. In a MIC token's, ec and rrc are zero.
type header struct {
	id    uint16
	flags byte
	ec    uint16 // extra count: bytes of filler; without confidentiality, of the checksum
	rrc   uint16 // right rotation count
	seq   uint64
}

// put encodes the header into b, of tokenHeader bytes.
func (h header) put(b []byte) {
	binary.BigEndian.PutUint16(b, h.id)
	b[2] = h.flags
	b[3] = 0xff
	if h.id == idMIC {
		binary.BigEndian.PutUint32(b[4:], 0xffffffff)
	} else {
		binary.BigEndian.PutUint16(b[4:], h.ec)
		binary.BigEndian.PutUint16(b[6:], h.rrc)
	}
	binary.BigEndian.PutUint64(b[8:], h.seq)
}

// parseHeader decodes a token's header. ok is false if the token is too short, or has another
// identifier or filler.
func parseHeader(token []byte, id uint16) (h header, ok bool) {
	if len(token) < tokenHeader {
		return header{}, false
	}
	h = header{id: binary.BigEndian.Uint16(token), flags: token[2], seq: binary.BigEndian.Uint64(token[8:])}
	if h.id != id || token[3] != 0xff {
		return header{}, false
	}
	if id == idMIC {
		return h, binary.BigEndian.Uint32(token[4:]) == 0xffffffff
	}
	h.ec = binary.BigEndian.Uint16(token[4:])
	h.rrc = binary.BigEndian.Uint16(token[6:])
	return h, true
}

// unrotate reverses a right rotation by n bytes, in place (RFC 4121 §4.2.5).
func unrotate(b []byte, n int) {
	if len(b) == 0 {
		return
	}
	n %= len(b)
	var scratch [256]byte
	switch {
	case n == 0:
	case n <= len(scratch):
		copy(scratch[:], b[:n])
		copy(b, b[n:])
		copy(b[len(b)-n:], scratch[:n])
	default:
		reverse(b[:n])
		reverse(b[n:])
		reverse(b)
	}
}

func reverse(b []byte) {
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
}
