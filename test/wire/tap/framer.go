// Units of a stream: an MPA frame, then FPDUs.

package tap

import (
	"encoding/binary"
	"strings"
)

// A framer cuts one direction of a connection into its units. What does not begin with
// an MPA frame is passed as it comes.
type framer struct {
	pending []byte // bytes of a unit that is not whole yet
	mpa     bool   // the direction has begun with an MPA frame
	plain   bool   // it has begun with something else
}

func (f *framer) add(b []byte) { f.pending = append(f.pending, b...) }

// next takes the next whole unit, nil when there is none.
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

// rest takes what is left when the stream has ended.
func (f *framer) rest() []byte {
	b := f.pending
	f.pending = nil
	return b
}
