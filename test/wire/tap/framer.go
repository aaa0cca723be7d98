// The units of a stream: an MPA frame, then FPDUs.

package tap

import (
	"encoding/binary"
	"strings"
)

// A framer splits one direction of a connection into units. A stream that does not begin with an
// MPA frame is passed on unsplit.
type framer struct {
	pending []byte // an incomplete unit
	mpa     bool   // the direction began with an MPA frame
	plain   bool   // the direction began with other bytes
}

func (f *framer) add(b []byte) { f.pending = append(f.pending, b...) }

// next returns the next complete unit, or nil.
func (f *framer) next() []byte {
	b, n := f.pending, 0
	switch {
	case f.plain || !f.mpa && !strings.HasPrefix("MPA ", string(b[:min(len(b), 4)])):
		f.plain = true
		n = len(b)
	case f.mpa && len(b) >= 2:
		n = 2 + int(binary.BigEndian.Uint16(b))
		n += -n&3 + 4
	case !f.mpa && len(b) >= 20:
		n = 20 + int(binary.BigEndian.Uint16(b[18:]))
		f.mpa = len(b) >= n
	}
	if n == 0 || len(b) < n {
		return nil
	}
	f.pending = b[n:]
	return b[:n:n]
}

// rest returns the remaining bytes at the end of the stream.
func (f *framer) rest() []byte {
	b := f.pending
	f.pending = nil
	return b
}
