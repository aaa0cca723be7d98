// Ref: the name an FS gives to a file, as a value.

package nfsserver

import "encoding/binary"

// MaxRef is the longest Ref in bytes. With the server's 16 bytes it fits an NFSv3 handle.
const MaxRef = 48

// A Ref names one file of an FS for as long as the file exists. Only that FS interprets its bytes.
// Refs of one file are equal. A Ref is a value: comparing and passing it allocates nothing.
type Ref struct {
	n uint8
	b [MaxRef]byte
}

// MakeRef returns the Ref with bytes b; ok is false for too many bytes or none.
func MakeRef(b []byte) (r Ref, ok bool) {
	if len(b) == 0 || len(b) > MaxRef {
		return Ref{}, false
	}
	r.n = uint8(copy(r.b[:], b))
	return r, true
}

// Len returns the number of bytes.
func (r *Ref) Len() int { return int(r.n) }

// Bytes returns the bytes; they alias r.
func (r *Ref) Bytes() []byte { return r.b[:r.n] }

// Hash returns a number for spreading Refs over shards. It reads whole words, because the unused
// bytes after a Ref's bytes are zero.
func (r *Ref) Hash() uint32 {
	h := uint64(r.n)
	for i := 0; i < int(r.n); i += 8 {
		h = (h ^ binary.LittleEndian.Uint64(r.b[i:])) * 0x9E3779B97F4A7C15
		h ^= h >> 32
	}
	return uint32(h)
}
