// Keys that send several bytes, such as arrows. These keys have no function here.

package top

// An escape is the parser state for an ECMA-48 sequence.
type escape int

const (
	outside  escape = iota
	begun           // after ESC
	inside          // after ESC [, up to a final byte
	lastByte        // after ESC O, before its one byte
)

// key reports whether a byte is a key rather than part of a sequence.
func (e *escape) key(b byte) bool {
	switch {
	case b == '\x1b':
		*e = begun
	case *e == begun && b == '[':
		*e = inside
	case *e == begun && b == 'O':
		*e = lastByte
	case *e == inside && (b < 0x40 || b > 0x7e): // parameters
	case *e == inside, *e == lastByte:
		*e = outside
	default: // also after a lone ESC
		*e = outside
		return true
	}
	return false
}
