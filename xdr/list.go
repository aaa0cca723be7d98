// Arrays, and the type void, which has no bytes.

package xdr

import "slices"

// Length reads a variable-length array's length, at most limit elements (RFC 4506 §4.13). Each
// element takes at least size bytes, which is positive. A length beyond the unread bytes fails with
// ErrShort, so a caller can make the array before it reads the elements.
func (d *Decoder) Length(limit, size int) int {
	n := uint64(d.Uint32())
	switch {
	case d.err != nil:
		return 0
	case n > uint64(limit):
		d.err = ErrLimit
	case n > uint64(d.Remaining()/size):
		d.err = ErrShort
	default:
		return int(n)
	}
	return 0
}

// Resize returns a slice with n elements in s's memory, if that is large enough. Elements have
// arbitrary content, for a decoder to overwrite.
func Resize[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// A Void is the type void: no bytes (RFC 4506 §4.16).
type Void struct{}

// EncodeXDR appends nothing.
func (*Void) EncodeXDR(*Encoder) {}

// DecodeXDR reads nothing.
func (*Void) DecodeXDR(*Decoder) {}
