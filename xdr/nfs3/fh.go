// FH: a file handle as a value (nfs_fh3, RFC 1813 §2.5).

package nfs3

import (
	"encoding/hex"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// An FH is a file handle: up to 64 bytes that only the server understands.
// It is a plain value: it can be copied, compared with == and used as a map
// key, and holds no pointer. The zero value is the handle of length 0.
type FH struct {
	n uint8
	b [FHSize]byte // bytes from n on are zero, so that == is right
}

// MakeFH returns the handle made of a copy of b; it fails with xdr.ErrLimit
// when b is longer than 64 bytes.
func MakeFH(b []byte) (FH, error) {
	var h FH
	if len(b) > FHSize {
		return h, xdr.ErrLimit
	}
	h.n = uint8(copy(h.b[:], b))
	return h, nil
}

// Len is the length of the handle in bytes.
func (h *FH) Len() int { return int(h.n) }

// Bytes is the handle's bytes: a part of h, not to be changed.
func (h *FH) Bytes() []byte { return h.b[:h.n:h.n] }

// String is the handle in hexadecimal.
func (h FH) String() string { return hex.EncodeToString(h.b[:h.n]) }

// EncodeXDR appends the handle: length word, bytes, pad.
func (h *FH) EncodeXDR(e *xdr.Encoder) { e.Opaque(h.b[:h.n]) }

// DecodeXDR reads a handle of at most 64 bytes.
func (h *FH) DecodeXDR(d *xdr.Decoder) {
	b := d.Opaque(FHSize)
	h.n = uint8(copy(h.b[:], b))
	clear(h.b[h.n:])
}
