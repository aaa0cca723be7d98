// FH: a file handle as a value (nfs_fh3, RFC 1813 §2.5).

package nfs3

import (
	"encoding/hex"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// An FH is a file handle: up to 64 bytes, opaque to clients. An FH has no pointers, so it can be
// copied, compared with == and used as a map key. The zero value has length 0.
type FH struct {
	n uint8
	b [FHSize]byte // bytes from n on are zero, so that == works
}

// MakeFH returns a handle with a copy of b; MakeFH fails with xdr.ErrLimit if b is longer than 64
// bytes.
func MakeFH(b []byte) (FH, error) {
	var h FH
	if len(b) > FHSize {
		return h, xdr.ErrLimit
	}
	h.n = uint8(copy(h.b[:], b))
	return h, nil
}

// Len returns the handle's length in bytes.
func (h *FH) Len() int { return int(h.n) }

// Bytes returns the handle's bytes, aliasing h; do not change the bytes.
func (h *FH) Bytes() []byte { return h.b[:h.n:h.n] }

// String returns the handle in hexadecimal.
func (h FH) String() string { return hex.EncodeToString(h.b[:h.n]) }

// EncodeXDR appends the handle: length word, bytes, pad.
func (h *FH) EncodeXDR(e *xdr.Encoder) { e.Opaque(h.b[:h.n]) }

// DecodeXDR reads a handle of at most 64 bytes.
func (h *FH) DecodeXDR(d *xdr.Decoder) {
	b := d.Opaque(FHSize)
	h.n = uint8(copy(h.b[:], b))
	clear(h.b[h.n:])
}
