// Keys that are sent as sequences, such as the arrows: none of them is ours.

package top

// An escape is how far a sequence of ECMA-48 has come.
type escape int

const (
	outside  escape = iota
	begun           // after ESC
	inside          // after ESC [, up to a final byte
	lastByte        // after ESC O, of which one byte follows
)

// key reports whether a byte is a key, and no part of a sequence.
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
	default: // after a lone ESC, too
		*e = outside
		return true
	}
	return false
}
