// Scripts: a fuzzer's bytes, read as numbers and choices.

package rnictest

// A Script is read from its front. After its end it yields zeros.
type Script []byte

// Byte takes one byte.
func (s *Script) Byte() byte {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return b
}

// Word takes two bytes, the high one first.
func (s *Script) Word() int {
	return int(s.Byte())<<8 | int(s.Byte())
}

// Take takes n bytes, or fewer at the end.
func (s *Script) Take(n int) []byte {
	n = min(n, len(*s))
	b := (*s)[:n:n]
	*s = (*s)[len(b):]
	return b
}

// More reports whether bytes are left.
func (s *Script) More() bool { return len(*s) > 0 }
